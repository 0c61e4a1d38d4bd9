-- The time from the proxy to the app's start where the backend was idle: none of its requests was present; and the
-- shortest time of all requests (sojourn.model.evidence).
SELECT
    upstream,
    quantileExactInclusiveOrNullIf(0.25)(queueing_delay, arrival > before AND number > 1) AS way,
    countIf(arrival > before AND number > 1) AS idle,
    quantileExactInclusive(0.01)(queueing_delay) AS least
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
WHERE upstream IS NOT NULL AND queueing_delay IS NOT NULL
GROUP BY upstream
