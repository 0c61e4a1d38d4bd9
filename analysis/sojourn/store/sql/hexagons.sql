-- Requests by service time and queueing delay, in hexagons: the nearest centre of two lattices (Carr et al. 1987).
SELECT
    toInt32(if(near_one, 2 * one_across, 2 * other_across + 1)) AS across,
    toInt32(if(near_one, 2 * one_up, 2 * other_up + 1)) AS up,
    count() AS requests
FROM (
    SELECT
        log(greatest(service_time, {low:Float64}) / {low:Float64}) / {step_across:Float64} AS u,
        log(greatest(queueing_delay, {low:Float64}) / {low:Float64}) / {step_up:Float64} AS w,
        floor(u + 0.5) AS one_across,
        floor(w + 0.5) AS one_up,
        floor(u) AS other_across,
        floor(w) AS other_up,
        pow(u - one_across, 2) + 3 * pow(w - one_up, 2)
            <= pow(u - other_across - 0.5, 2) + 3 * pow(w - other_up - 0.5, 2) AS near_one
    FROM split
    WHERE served AND service_time IS NOT NULL AND queueing_delay IS NOT NULL
)
GROUP BY across, up
ORDER BY across, up
