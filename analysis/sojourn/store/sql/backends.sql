-- How long the workers of each backend were held: until the span's end, where work went on for a client already gone.
SELECT
    upstream,
    uniqExact(worker) AS workers,
    ifNull(sum(coalesce(span_seconds, service_time)), 0) AS busy,
    max(greatest(time, ifNull(span_start + toIntervalMicrosecond(toInt64(span_seconds * 1e6)), time))) AS held_until
FROM split
WHERE served AND proxied
GROUP BY upstream
ORDER BY upstream ASC NULLS FIRST
