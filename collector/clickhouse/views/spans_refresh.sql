-- Counts the requests without a span of the minutes that are due.
CREATE MATERIALIZED VIEW IF NOT EXISTS spans_refresh${local} ${on_cluster}
REFRESH EVERY 1 MINUTE APPEND TO spans_minute${local}
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT * FROM spans_counted${local};
