-- How a minute becomes rows of rollup_minute: the view rollup_refresh selects every 15 s from rollup_due, for the minutes of
-- minutes_due, and writes into this table, which stores nothing. From it one view fills rollup_minute, and another one notes in
-- touched_minutes that the minute was computed.
--
-- A minute is due as long as a row of it arrived later than 60 s before its rollup was last begun. Why 60 s: a row is
-- stamped when its block is taken and can be read a little later, once it is written. A refresh in between sees the
-- stamp or not, but never the row. Without the 60 s it would tick the minute off; with them the minute remains due until
-- a refresh begun a minute after the row's arrival has read it. The same 60 s cover clocks of two machines that differ,
-- and, on a cluster, replicas that lag a little (see minutes_known).
CREATE TABLE IF NOT EXISTS rollup_results${local} ${on_cluster} AS rollup_minute${local} ENGINE = Null;
