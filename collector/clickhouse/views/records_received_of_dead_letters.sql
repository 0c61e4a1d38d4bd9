-- The hashes of the lines that are refused, of each kind.
CREATE MATERIALIZED VIEW IF NOT EXISTS records_received_of_dead_letters${local} ${on_cluster} TO records_received${local}
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT 'dead_letters' AS kind, toStartOfHour(d.time) AS hour, d.source AS source, uniqState(d.identity) AS records
FROM (SELECT time, source, ${letter_identity} AS identity FROM dead_letters${local}) AS d
GROUP BY hour, source;
