-- Little's law over a window, with a weight that rises from 0 to 1 and falls to 0 again (sojourn.analyses.audit.analysis).
-- arrival and departure are parts of the window; passed is the integral of the weight up to each of them.
SELECT
    sum(passed[2] - passed[1]) AS present,
    countIf(weight > {rounding:Float64}) AS arrivals,
    sum(weight) AS weights,
    sum(weight * request_time) AS response
FROM (
    SELECT
        request_time,
        {edge:Float64} AS edge,
        fromUnixTimestamp64Micro({begin:Int64}, 'UTC') AS begin,
        least(greatest(dateDiff('microsecond', begin, start) / ({seconds:Float64} * 1e6), 0), 1) AS arrival,
        least(greatest(dateDiff('microsecond', begin, time) / ({seconds:Float64} * 1e6), 0), 1) AS departure,
        least(arrival, 1 - arrival, edge) / edge AS weight,
        arrayMap(x -> multiIf(
            x < edge, x * x / (2 * edge),
            x <= 1 - edge, x - edge / 2,
            1 - edge - (1 - x) * (1 - x) / (2 * edge)), [arrival, departure]) AS passed
    FROM chosen
    WHERE status != $switching_protocols
)
