Tuple(
    time String, request_time String, status String, request_start String, proxy_start String,
    upstream_addr Nullable(String), upstream_status String,
    upstream_connect_time String, upstream_header_time String, upstream_response_time String,
    queueing_delay String, service_time String,
    bytes_sent String, request_length String, connection String, connection_requests String,
    service LowCardinality(String), route LowCardinality(String), proxy LowCardinality(String),
    worker LowCardinality(String), stamp LowCardinality(String),
    upstream_cache_status LowCardinality(String), limit_req_status LowCardinality(String),
    method LowCardinality(String), protocol LowCardinality(String), host LowCardinality(String),
    uri String, remote_addr String,
    request_id String, trace_id String, span_id String)
