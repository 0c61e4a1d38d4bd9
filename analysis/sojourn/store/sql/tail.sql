-- What the slow requests were made of.
SELECT
    count() AS requests,
    $means
FROM split
WHERE served AND request_time >= {at_least:Float64}
