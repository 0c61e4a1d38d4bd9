-- Mean response time of each value of a group, and its parts.
SELECT
    ifNull(toString($group), '–') AS value,
    count() AS requests,
    sum(request_time) AS total,
    avg(request_time) AS response,
    avg(ifNull(queueing_delay, 0)) AS queueing,
    avg(ifNull(service_time, 0)) AS service
FROM split
WHERE served
GROUP BY value
ORDER BY total DESC, value
LIMIT {limit:UInt32}
