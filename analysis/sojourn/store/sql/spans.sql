-- Spans of the app's own requests, column by column as sojourn.readers.spans.SPANS_SCHEMA has them.
SELECT
    nullIf(s.request_id, '') AS request_id,
    s.trace_id AS trace_id,
    s.span_id AS span_id,
    nullIf(s.parent_span_id, '') AS parent_span_id,
    nullIf(s.service, '') AS service_name,
    toDateTime64(s.start, 6, 'UTC') AS span_start,
    toDateTime64(s.end, 6, 'UTC') AS span_end,
    s.seconds AS span_seconds,
    toFloat64(s.service_time) AS span_service_time,
    toFloat64(coalesce(s.queueing_delay_raw, s.queueing_delay)) AS span_queueing_delay,
    nullIf(s.worker, '') AS span_worker,
    nullIf(s.route, '') AS span_route
FROM spans AS s FINAL
WHERE s.kind = 'server' AND $window
ORDER BY span_start
