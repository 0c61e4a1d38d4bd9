-- Deliveries of lines, as they arrive.
CREATE MATERIALIZED VIEW IF NOT EXISTS lines_received_of_lines${local} ${on_cluster} TO lines_received${local}
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT toStartOfMinute(now('UTC')) AS minute, if(reason = '', 'requests', 'dead_letters') AS kind, source, count() AS lines
FROM parsed${local}
GROUP BY kind, source;
