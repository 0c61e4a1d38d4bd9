-- Arrivals and response time in windows of equal width: what the test for a trend looks at.
SELECT
    intDiv((toUnixTimestamp64Micro(start) - {begin:Int64}) * {count:Int64}, {end:Int64} - {begin:Int64}) AS window,
    count() AS arrivals,
    avg(request_time) AS response
FROM chosen
WHERE status != $switching_protocols
    AND start >= fromUnixTimestamp64Micro({begin:Int64}, 'UTC')
    AND start < fromUnixTimestamp64Micro({end:Int64}, 'UTC')
GROUP BY window
ORDER BY window
