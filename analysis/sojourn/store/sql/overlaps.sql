-- Requests that one worker of a backend served at the same time, by the app's clock (sojourn.model.one_worker): services
-- that overlap by less than a step of that clock do not.
SELECT
    upstream,
    max(depth) AS most,
    countIf(step > 0 AND depth > 1) / countIf(step > 0) AS share
FROM
(
    SELECT
        upstream,
        change.2 AS step,
        sum(change.2) OVER (
            PARTITION BY upstream, worker ORDER BY change.1, change.2 ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS depth
    FROM
    (
        SELECT
            upstream,
            worker,
            $tick + $slack AS slack,
            arrayJoin([(greatest(ended - slack, begun), toInt64(-1)), (begun, toInt64(1))]) AS change
        FROM
        (
            SELECT
                upstream,
                worker,
                toUnixTimestamp64Micro(assumeNotNull(proxy_start)) + toInt64(round(assumeNotNull(app_start) * 1e6)) AS begun,
                begun + toInt64(round(assumeNotNull(coalesce(span_seconds, service_time)) * 1e6)) AS ended
            FROM split AS s
            WHERE served AND s.proxied AND worker IS NOT NULL AND proxy_start IS NOT NULL AND app_start IS NOT NULL
                AND coalesce(span_seconds, service_time) IS NOT NULL AND NOT s.impossible
            ORDER BY time
            LIMIT $looked_at
        )
    )
)
GROUP BY upstream
