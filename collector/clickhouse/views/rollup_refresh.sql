-- Computes the rollups of the minutes that are due.
CREATE MATERIALIZED VIEW IF NOT EXISTS rollup_refresh${local} ${on_cluster}
REFRESH EVERY 15 SECOND APPEND TO rollup_results${local}
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT * FROM rollup_due${local};
