-- The time from the proxy to the app's start where the backend was idle: none of its requests was present (sojourn.model.evidence).
SELECT upstream, quantileExactInclusive(0.25)(queueing_delay) AS way, count() AS idle
FROM
(
    SELECT
        upstream,
        queueing_delay,
        coalesce(proxy_start, start) AS arrival,
        max(time) OVER (PARTITION BY upstream ORDER BY arrival ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before,
        row_number() OVER (PARTITION BY upstream ORDER BY arrival) AS number
    FROM (SELECT upstream, queueing_delay, proxy_start, start, time FROM split WHERE answered AND served ORDER BY time LIMIT $looked_at)
)
WHERE number > 1 AND arrival > before AND upstream IS NOT NULL AND queueing_delay IS NOT NULL
GROUP BY upstream
HAVING idle >= $enough_idle AND way > $short_way
