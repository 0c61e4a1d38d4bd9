CREATE MATERIALIZED VIEW IF NOT EXISTS rollup_results_to_rollup_minute${local} ${on_cluster} TO rollup_minute${local}
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT * FROM rollup_results${local} WHERE requests + upgraded > 0;
