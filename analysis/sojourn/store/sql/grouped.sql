-- Figures by the values of a group, those with the most seconds first.
SELECT
    $group AS value,
    count() AS requests,
    sum(request_time) AS seconds,
    -- Of the requests whose wait is known; unknown where they went to apps and no delay is known.
    if(countIf(proxied) > 0 AND count(queueing_delay) = 0, NULL, sum(ifNull(queueing_delay, 0)) / nullIf(sumIf(request_time, queueing_delay IS NOT NULL OR NOT proxied), 0)) AS share,
    $figures,
    count() OVER () AS groups
FROM split
WHERE served
GROUP BY value
ORDER BY seconds DESC, value ASC NULLS LAST
LIMIT {limit:UInt32}
