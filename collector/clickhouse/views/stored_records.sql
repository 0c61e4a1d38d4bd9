-- The stored records of each file: distinct requests by the hour in which they ended, and distinct refused lines by the hour in
-- which they were refused.
CREATE OR REPLACE VIEW stored_records ${on_cluster} SQL SECURITY INVOKER AS
SELECT hour, source, sum(r.requests) AS requests, sum(r.dead_letters) AS dead_letters
FROM
(
    SELECT toStartOfHour(time) AS hour, source, count() AS requests, 0 AS dead_letters
    FROM requests FINAL
    GROUP BY hour, source
    UNION ALL
    SELECT toStartOfHour(time) AS hour, source, 0 AS requests, count() AS dead_letters
    FROM dead_letters FINAL
    WHERE kind = 'requests'
    GROUP BY hour, source
) AS r
GROUP BY hour, source;
