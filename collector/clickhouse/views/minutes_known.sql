-- Minutes with requests, and when they were last computed. A minute whose requests have expired keeps the rollup that it has,
-- even if one of them is delivered again: with `init --keep` the minutes begin at the first day that is kept. On a cluster, a
-- replica that lags behind by more than 30 s has no minutes here, so it computes none from rows that it does not have yet. With
-- less, a minute is still due (60 s) when the rows have arrived. When the text of rollup_due changes, every minute counts as touched.
CREATE OR REPLACE VIEW minutes_known${local} ${on_cluster} SQL SECURITY INVOKER AS
SELECT
    minute,
    greatest(max(m.touched), (SELECT max(applied) FROM schema_state WHERE name = 'views/rollup_due')) AS touched,
    max(m.computed) AS computed,
    sum(m.arrived) AS arrived
FROM touched_minutes${local} AS m
WHERE minute > ${kept_since}${replica_guard}
GROUP BY minute;
