-- Arrivals and response time in windows of equal width: what the test for a trend looks at.
SELECT
    toInt64(floor(dateDiff('microsecond', fromUnixTimestamp64Micro({begin:Int64}, 'UTC'), start) / {width:Float64})) AS window,
    count() AS arrivals,
    avg(request_time) AS response
FROM chosen
WHERE status != 101
GROUP BY window
HAVING window BETWEEN 0 AND {count:Int32} - 1
ORDER BY window
