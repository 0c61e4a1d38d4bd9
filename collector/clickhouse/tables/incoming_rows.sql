-- Requests in types: what lines become, and what `sojourn store load` sends of logs in other formats. Nothing is stored here; the
-- view of incoming/rows.sql makes rows of requests of it.
-- Distributed by cityHash64(request_id).
CREATE TABLE IF NOT EXISTS incoming_rows${local} ${on_cluster}
(
    time DateTime64(6, 'UTC') COMMENT 'as all columns: see requests',
    request_time Decimal64(6),
    request_start Nullable(DateTime64(6, 'UTC')),
    proxy_start Nullable(DateTime64(6, 'UTC')),
    proxy_queue Decimal64(6),
    status UInt16,
    service LowCardinality(String),
    route LowCardinality(String),
    proxy LowCardinality(String),
    worker LowCardinality(String),
    stamp LowCardinality(String),
    upstream_cache_status LowCardinality(String),
    limit_req_status LowCardinality(String),
    method LowCardinality(String),
    protocol LowCardinality(String),
    host LowCardinality(String),
    uri String,
    remote_addr String,
    request_id String,
    trace_id String,
    span_id String,
    bytes_sent Nullable(Int64),
    request_length Nullable(Int64),
    connection Nullable(Int64),
    connection_requests Nullable(Int64),
    attempt_addr Array(LowCardinality(String)),
    attempt_status Array(UInt16),
    attempt_connect Array(Nullable(Decimal64(6))),
    attempt_header Array(Nullable(Decimal64(6))),
    attempt_response Array(Nullable(Decimal64(6))),
    app_queueing_delay Nullable(Decimal64(6)),
    app_service_time Nullable(Decimal64(6)),
    app_garbled Bool,
    vantage LowCardinality(String),
    time_step Float64 DEFAULT 0.001,
    source LowCardinality(String),
    ingested DateTime64(3, 'UTC') DEFAULT now64(3)
)
ENGINE = Null;
