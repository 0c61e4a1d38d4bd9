-- Bounds of the clock offset that the arriving requests set. Requests answered at the first attempt only: every attempt before adds
-- nginx's rounding once more.
CREATE MATERIALIZED VIEW IF NOT EXISTS clock_bounds_of_requests${local} ${on_cluster} TO clock_bounds${local}
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
WITH ${facts_of_rows}
SELECT
    toStartOfHour(time) AS hour,
    proxy,
    upstream,
    min(assumeNotNull(app_start) - ifNull(connect, 0)) AS upper,
    max(assumeNotNull(app_start) + assumeNotNull(app_service) - assumeNotNull(header)) AS lower,
    min(ifNull(connect, 0)) AS round_trip,
    max(toUnixTimestamp64Micro(assumeNotNull(proxy_start)) % ${tick} != 0
        OR toInt64(round(assumeNotNull(header) * 1e6)) % ${tick} != 0) AS fine,
    count() AS requests
FROM facts
WHERE answered AND attempts = 1 AND app_start IS NOT NULL AND app_service IS NOT NULL
GROUP BY hour, proxy, upstream;
