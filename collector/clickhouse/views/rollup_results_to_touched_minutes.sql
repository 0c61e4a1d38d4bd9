-- A minute without any row left (expired, or dropped by hand) has a result too, an empty one, or it would be due for ever.
CREATE MATERIALIZED VIEW IF NOT EXISTS rollup_results_to_touched_minutes${local} ${on_cluster} TO touched_minutes${local}
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT minute, toDateTime64(0, 3, 'UTC') AS touched, max(computed) AS computed, 0 AS arrived
FROM rollup_results${local}
GROUP BY minute;
