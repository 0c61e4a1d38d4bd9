-- The hashes of the requests that arrive. A row is itself by the columns that order the table, not by its file: a log that is
-- loaded again under another name brings the same records.
CREATE MATERIALIZED VIEW IF NOT EXISTS records_received_of_requests${local} ${on_cluster} TO records_received${local}
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT 'requests' AS kind, toStartOfHour(time) AS hour, source, uniqState(${request_identity}) AS records
FROM requests${local}
WHERE time < '2106-01-01'
GROUP BY hour, source;
