-- The columns of reported_with_spans where no span is joined.
SELECT
    *,
    CAST(NULL AS Nullable(DateTime64(6, 'UTC'))) AS span_start,
    CAST(NULL AS Nullable(Float64)) AS span_seconds,
    CAST(NULL AS Nullable(Float64)) AS span_service_time,
    CAST(NULL AS Nullable(String)) AS span_route
FROM chosen
