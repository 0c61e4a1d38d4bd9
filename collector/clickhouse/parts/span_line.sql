Tuple(
    resourceSpans Array(Tuple(
        resource Tuple(attributes Array(Tuple(key String, value Map(String, String)))),
        scopeSpans Array(Tuple(spans Array(Tuple(
            traceId String, spanId String, parentSpanId String, name LowCardinality(String), kind LowCardinality(String),
            startTimeUnixNano Nullable(Int64), endTimeUnixNano Nullable(Int64),
            status Tuple(code LowCardinality(String), message String),
            attributes Array(Tuple(key String, value Map(String, String))),
            events Array(Tuple(timeUnixNano Nullable(Int64), name String)))))))),
    trace_id String, span_id String, parent_span_id String, name LowCardinality(String), kind LowCardinality(String),
    start_time_unix_nano String, end_time_unix_nano String,
    status Tuple(code LowCardinality(String), message String),
    attributes Map(String, String), resources Map(String, String),
    events Array(Tuple(time_unix_nano String, name String)))
