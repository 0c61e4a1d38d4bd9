-- Requests by arrival and by the logarithm of a time.
SELECT
    intDiv(dateDiff('microsecond', fromUnixTimestamp64Micro({begin:Int64}, 'UTC'), start), {width:Int64}) AS window,
    toInt32(least(
        greatest(floor(log(greatest($column, {low:Float64}) / {low:Float64}) / {step:Float64}), 0.),
        toFloat64({count:Int32} - 1))) AS bin,
    count() AS requests
FROM split
WHERE served AND $column IS NOT NULL
GROUP BY window, bin
ORDER BY window, bin
