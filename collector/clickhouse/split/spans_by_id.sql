-- What a span tells of the request whose id it carries: of several, the one that started last is that of the last attempt.
SELECT
    request_id,
    argMax((toDateTime64(start, 6, 'UTC'), seconds, toFloat64(service_time), nullIf(route, '')), start) AS best,
    toNullable(best.1) AS span_start,
    toNullable(best.2) AS span_seconds,
    best.3 AS span_service_time,
    best.4 AS span_route
FROM spans FINAL
WHERE kind = 'server' AND request_id != '' AND ${window}
GROUP BY request_id
