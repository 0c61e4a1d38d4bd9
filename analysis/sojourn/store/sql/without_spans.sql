-- The columns of with_spans.sql where the store holds no span of that time: nothing is joined.
SELECT
    *,
    CAST(NULL AS Nullable(DateTime64(6, 'UTC'))) AS span_start,
    CAST(NULL AS Nullable(Float64)) AS span_seconds,
    CAST(NULL AS Nullable(Float64)) AS span_service_time,
    CAST(NULL AS Nullable(String)) AS span_route
FROM chosen
