-- The same for spans without a request id (stock instrumentation), by their parent: the span id that nginx sent.
-- The trace alone would not do: services further down have spans in it too.
SELECT
    trace_id,
    parent_span_id,
    argMax((toDateTime64(start, 6, 'UTC'), seconds, toFloat64(service_time), nullIf(route, '')), start) AS best,
    toNullable(best.1) AS span_start,
    toNullable(best.2) AS span_seconds,
    best.3 AS span_service_time,
    best.4 AS span_route
FROM spans FINAL
WHERE kind = 'server' AND request_id = '' AND parent_span_id != '' AND ${window}
GROUP BY trace_id, parent_span_id
