-- Every request with the span of its last attempt, NULL where there is none (sojourn.components.split.with_spans).
SELECT
    -- An app that was not waited for cannot name its route in a header.
    chosen.* REPLACE (if(chosen.header IS NULL, coalesce(by_id.span_route, by_parent.span_route, chosen.route), chosen.route) AS route),
    coalesce(by_id.span_start, by_parent.span_start) AS span_start,
    coalesce(by_id.span_seconds, by_parent.span_seconds) AS span_seconds,
    coalesce(by_id.span_service_time, by_parent.span_service_time) AS span_service_time,
    coalesce(by_id.span_route, by_parent.span_route) AS span_route
FROM chosen
GLOBAL LEFT JOIN spans_by_id AS by_id ON by_id.request_id = chosen.request_id
GLOBAL LEFT JOIN spans_by_parent AS by_parent
    ON by_parent.trace_id = chosen.trace_id AND by_parent.parent_span_id = chosen.span_id
