-- Mean response time by arrival, its parts, and its p99.
SELECT
    intDiv(dateDiff('microsecond', fromUnixTimestamp64Micro({begin:Int64}, 'UTC'), start), {width:Int64}) AS window,
    count() AS requests,
    $p99 AS p99,
    avg(request_time) AS response,
    avg(ifNull(queueing_delay, 0)) AS queueing,
    avg(ifNull(service_time, 0)) AS service
FROM split
WHERE served
GROUP BY window
ORDER BY window
