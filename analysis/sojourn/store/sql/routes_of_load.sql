-- Requests and service time of each route by window of load (sojourn.analyses.capacity.mix).
SELECT
    $route AS route,
    intDiv(toUnixTimestamp64Micro(start) - {begin:Int64}, {width:Int64}) AS window,
    toInt64(count()) AS requests,
    sum(ifNull(app_service_time, 0)) AS service,
    toInt64(countIf(app_service_time > {limit:Float64})) AS above
FROM chosen
WHERE status != $switching_protocols AND ($taken)
GROUP BY route, window
ORDER BY route, window
