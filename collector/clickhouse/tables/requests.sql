-- One row per request that a proxy logged: the log record in types, attempts as arrays. A record delivered twice is the same
-- row twice: it collapses when parts are merged, and at once where a query says FINAL. Durations are seconds to the
-- microsecond, exact sums included. The components of the response time are in the view requests_split. The codecs were
-- chosen by measurement: see docs/reference/store.md.
-- Distributed by cityHash64(request_id).
CREATE TABLE IF NOT EXISTS requests${local} ${on_cluster}
(
    time DateTime64(6, 'UTC') CODEC(GCD, Delta, ZSTD(3)) COMMENT 'when nginx wrote the record: the end of the request',
    request_time Decimal64(6) CODEC(GCD, T64('bit'), ZSTD(1)) COMMENT 's, response time as nginx saw it',
    request_start Nullable(DateTime64(6, 'UTC')) CODEC(GCD, T64('bit'), ZSTD(1)) COMMENT 'the stamp the app was sent',
    proxy_start Nullable(DateTime64(6, 'UTC')) CODEC(GCD, T64('bit'), ZSTD(1)) COMMENT 'when nginx built the upstream request',
    proxy_queue Decimal64(6) CODEC(T64('bit'), ZSTD(1)) COMMENT 's in the proxy''s own queue, for a place at the backend; 0 where it has none',
    status UInt16 CODEC(T64, ZSTD(1)),
    service LowCardinality(String) COMMENT 'empty: not known; so in every text column',
    route LowCardinality(String) COMMENT 'a template, never the raw URI',
    proxy LowCardinality(String) COMMENT 'host name of the nginx that wrote the record',
    worker LowCardinality(String) CODEC(ZSTD(3)) COMMENT 'worker of the app that served it',
    stamp LowCardinality(String) COMMENT 'own, inbound or refused:<reason>',
    upstream_cache_status LowCardinality(String) COMMENT 'what the cache of nginx did: HIT, MISS, EXPIRED and others',
    limit_req_status LowCardinality(String) COMMENT 'what limit_req did: PASSED, DELAYED, REJECTED and others',
    method LowCardinality(String),
    protocol LowCardinality(String),
    host LowCardinality(String),
    uri String CODEC(ZSTD(6)),
    remote_addr String CODEC(ZSTD(3)),
    request_id String CODEC(ZSTD(1)),
    trace_id String CODEC(ZSTD(1)) COMMENT 'trace id where it is not the request id; see trace',
    span_id String CODEC(ZSTD(3)),
    bytes_sent Nullable(Int64) CODEC(T64('bit'), ZSTD(1)),
    request_length Nullable(Int64) CODEC(T64('bit'), ZSTD(1)),
    connection Nullable(Int64) CODEC(T64('bit'), ZSTD(1)),
    connection_requests Nullable(Int64) CODEC(T64('bit'), ZSTD(1)),
    attempt_addr Array(LowCardinality(String)) CODEC(ZSTD(3)) COMMENT 'backends contacted, in order; the last one answered',
    attempt_status Array(UInt16) CODEC(ZSTD(3)) COMMENT '0: none',
    attempt_connect Array(Nullable(Decimal64(6))) CODEC(ZSTD(3)) COMMENT 's; null: no connection',
    attempt_header Array(Nullable(Decimal64(6))) CODEC(GCD, T64('bit'), ZSTD(1)) COMMENT 's; null: no answer',
    attempt_response Array(Nullable(Decimal64(6))) CODEC(GCD, T64('bit'), ZSTD(1)) COMMENT 's',
    app_queueing_delay Nullable(Decimal64(6)) CODEC(T64, ZSTD(1)) COMMENT 's, app clock less the stamp, signed, as the app reported it',
    app_service_time Nullable(Decimal64(6)) CODEC(T64, ZSTD(1)) COMMENT 's, start to response headers, by the app',
    app_garbled Bool CODEC(ZSTD(1)) COMMENT 'the app answered something that is not a duration',
    vantage LowCardinality(String) COMMENT 'what the times are seen from: proxy, whole (whole requests only) or app; empty: proxy',
    time_step Float64 DEFAULT 0.001 CODEC(ZSTD(1)) COMMENT 's, the step in which time counts',
    source LowCardinality(String) COMMENT 'host and file the line was read from',
    ingested DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta, ZSTD(1)) COMMENT 'when the store received it',

    -- The identity of a record: its request id and number of attempts, and what else distinguishes two records of one id. A
    -- record without an id is identified by all it holds, so two of those that are alike to the last byte are one.
    record UInt64 MATERIALIZED sipHash64(
        request_id, length(attempt_addr), proxy, ifNull(connection, -1), ifNull(connection_requests, -1), request_time, status,
        if(request_id != '', '', toString(tuple(
            method, host, uri, protocol, remote_addr, worker, stamp, trace_id, span_id, bytes_sent, request_length,
            request_start, proxy_start, upstream_cache_status, limit_req_status, attempt_addr, attempt_status, attempt_connect, attempt_header,
            attempt_response, app_queueing_delay, app_service_time)))) CODEC(NONE) COMMENT 'identity of the record',

    -- nginx starts most traces, and the trace id is then the request id: such a row has no second copy of it, but its span id.
    trace String ALIAS if(trace_id = '' AND span_id != '', request_id, trace_id) COMMENT 'trace id',
    start DateTime64(6, 'UTC') ALIAS time - toIntervalMicrosecond(reinterpretAsInt64(request_time)) COMMENT 'when the first byte arrived',
    -- The last attempt is the one that answered; times in s.
    upstream LowCardinality(String) ALIAS if(empty(attempt_addr), '', attempt_addr[-1]) COMMENT 'backend of the last attempt',
    attempts UInt16 ALIAS length(attempt_addr),
    retries Float64 ALIAS toFloat64(arraySum(x -> ifNull(x, 0), arrayPopBack(attempt_response))) COMMENT 's, the attempts before the last',
    connect Nullable(Float64) ALIAS toFloat64(if(empty(attempt_connect), NULL, attempt_connect[-1])) COMMENT 's',
    header Nullable(Float64) ALIAS toFloat64(if(empty(attempt_header), NULL, attempt_header[-1])) COMMENT 's; null: no answer',
    response Nullable(Float64) ALIAS toFloat64(if(empty(attempt_response), NULL, attempt_response[-1])) COMMENT 's',

    INDEX by_request_id request_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX by_trace_id trace_id TYPE bloom_filter(0.01) GRANULARITY 1
)
ENGINE = ${replicated}ReplacingMergeTree
PARTITION BY toYYYYMMDD(time)
PRIMARY KEY (service, route, time)
ORDER BY (service, route, time, record)
-- A block that is sent again must touch its minutes again, so blocks are never skipped for being known: rows are.
SETTINGS replicated_deduplication_window = 0, ttl_only_drop_parts = 1;
