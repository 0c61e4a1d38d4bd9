-- The minutes of the rows that arrive. nowInBlock64 and not ingested: a long INSERT has the instant at which it began, and its later
-- blocks arrive long after. A DateTime ends in 2106: minutes after it have no rollup.
CREATE MATERIALIZED VIEW IF NOT EXISTS touched_minutes_of_requests${local} ${on_cluster} TO touched_minutes${local}
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT
    toStartOfMinute(time) AS minute,
    max(nowInBlock64(3)) AS touched,
    toDateTime64(0, 3, 'UTC') AS computed,
    count() AS arrived
FROM requests${local}
WHERE time < '2106-01-01'
GROUP BY minute;
