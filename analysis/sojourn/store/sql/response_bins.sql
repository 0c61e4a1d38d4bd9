-- Requests by response time, and what their time was made of.
SELECT
    toInt32(least(greatest(floor($index), 0.), toFloat64({count:Int32} - 1))) AS bin,
    count() AS requests,
    sum(request_time) AS total,
    sum(ifNull(queueing_delay, 0)) AS queueing,
    sum(ifNull(service_time, 0)) AS service
FROM split
WHERE served
GROUP BY bin
ORDER BY bin
