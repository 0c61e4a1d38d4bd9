-- Load by window: what arrived and what departed, what was left of the window then, how long the arrivals took, and
-- how long before each event the last departure was (sojourn.timeline.load_windows). Instants are microseconds from
-- 1 on, so that 0 says there was none. At one instant departures come first.
SELECT
    instance,
    window,
    toInt64(countIf(arrives)) AS arrivals,
    sumIf(left_over, arrives) AS arrived_left,
    toInt64(countIf(NOT arrives)) AS departures,
    sumIf(left_over, NOT arrives) AS departed_left,
    toInt64(countIf(arrives AND before > 0)) AS followed,
    sumIf(at - before, arrives AND before > 0) AS age,
    sumIf(at - before, NOT arrives AND before > 0) AS gaps,
    sumIf(pow((at - before) / 1e6, 2), NOT arrives AND before > 0) AS gaps_squared,
    toInt64(countIf(arrives AND failed)) AS failed,
    avgIf(request_time, arrives) AS mean,
    $quantiles AS quantiles
FROM (
    SELECT
        *,
        {width:Int64} - (at - 1) % {width:Int64} AS left_over,
        max(if(arrives, 0, at)) OVER (
            PARTITION BY instance, window ORDER BY at, arrives ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS before
    FROM (
        SELECT
            $instance AS instance,
            request_time,
            $failed AS failed,
            event.1 - {begin:Int64} + 1 AS at,
            event.2 = 1 AS arrives,
            intDiv(at - 1, {width:Int64}) AS window
        FROM chosen
        ARRAY JOIN [(toUnixTimestamp64Micro(start), 1), (toUnixTimestamp64Micro(time), 0)] AS event
        WHERE status != $switching_protocols AND ($taken)
    )
)
GROUP BY instance, window
ORDER BY instance, window
