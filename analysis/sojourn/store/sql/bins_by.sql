-- Requests of the groups with the most seconds by the logarithm of a time, and what their time was made of.
SELECT value, bin, requests, total, queueing, service
FROM (
    SELECT *, dense_rank() OVER (ORDER BY seconds DESC, value) AS place
    FROM (
        SELECT *, sum(total) OVER (PARTITION BY value) AS seconds
        FROM (
            SELECT
                ifNull(toString($group), '–') AS value,
                toInt32(least(
                    greatest(floor(log(greatest($column, {low:Float64}) / {low:Float64}) / {step:Float64}), 0.),
                    toFloat64({count:Int32} - 1))) AS bin,
                count() AS requests,
                sum(request_time) AS total,
                sum(ifNull(queueing_delay, 0)) AS queueing,
                sum(ifNull(service_time, 0)) AS service
            FROM split
            WHERE served AND $column IS NOT NULL
            GROUP BY value, bin
        )
    )
)
WHERE place <= {limit:UInt32}
ORDER BY place, bin
