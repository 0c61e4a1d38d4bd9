-- One row per request that a proxy logged: the log record in types, attempts as arrays. A record delivered twice is the same
-- row twice: it collapses when parts are merged, and at once where a query says FINAL. Durations are seconds to the
-- microsecond, exact sums included. The components of the response time are in the view requests_split. Codecs, and the
-- columns that are stored as differences, were chosen by measurement: see docs/reference/store.md. Rows arrive through
-- incoming_rows, which has the same columns as they are read.
-- Distributed.
CREATE TABLE IF NOT EXISTS requests${local} ${on_cluster}
(
    time DateTime64(6, 'UTC') CODEC(GCD, Delta, T64('bit'), ZSTD(1)) COMMENT 'when nginx wrote the record: the end of the request',
    request_time Decimal64(6) CODEC(GCD, T64('bit'), ZSTD(1)) COMMENT 's, response time as nginx saw it',
    proxy_start_after Nullable(Int64) CODEC(GCD, T64('bit'), ZSTD(1)) COMMENT 'us from start to proxy_start',
    request_start_after Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'us from proxy_start, or from start without one, to request_start',
    proxy_queue Decimal64(6) CODEC(T64('bit'), ZSTD(1)) COMMENT 's in the proxy''s own queue, for a place at the backend; 0 where it has none',
    status UInt16 CODEC(ZSTD(3)),
    service LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'empty: not known; so in every text column',
    route LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'a template, never the raw URI',
    proxy LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'host name of the nginx that wrote the record',
    worker LowCardinality(String) CODEC(ZSTD(3)) COMMENT 'worker of the app that served it',
    stamp LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'own, inbound or refused:<reason>',
    upstream_cache_status LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'what the cache of nginx did: HIT, MISS, EXPIRED and others',
    limit_req_status LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'what limit_req did: PASSED, DELAYED, REJECTED and others',
    method LowCardinality(String) CODEC(ZSTD(1)),
    protocol LowCardinality(String) CODEC(ZSTD(1)),
    host LowCardinality(String) CODEC(ZSTD(1)),
    uri String CODEC(ZSTD(9)),
    remote_addr String CODEC(ZSTD(3)),
    id_first UInt64 CODEC(NONE) COMMENT 'first half of a request id of 32 hexadecimal digits; 0: another id',
    record UInt64 CODEC(NONE) COMMENT 'identity of the record: the other half of its id, mixed with what else distinguishes two records; a hash of another id',
    id_is_text Bool CODEC(ZSTD(1)) COMMENT 'the id is not 32 hexadecimal digits in lower case',
    id_text String CODEC(ZSTD(1)) COMMENT 'such an id',
    trace_id String CODEC(ZSTD(1)) COMMENT 'trace id where it is not the request id; see trace',
    span_id String CODEC(ZSTD(3)),
    bytes_sent Nullable(Int64) CODEC(T64('bit'), ZSTD(1)),
    request_length Nullable(Int64) CODEC(T64('bit'), ZSTD(1)),
    connection Nullable(Int64) CODEC(Delta, T64('bit'), ZSTD(1)),
    connection_requests Nullable(Int64) CODEC(T64('bit'), ZSTD(1)),
    attempts UInt16 CODEC(ZSTD(1)) COMMENT 'number of backends contacted',
    attempt_addr Array(LowCardinality(String)) CODEC(ZSTD(3)) COMMENT 'backends contacted, in order',
    attempt_status Array(UInt16) CODEC(ZSTD(3)) COMMENT '0: none',
    attempt_connect Array(Nullable(Decimal64(6))) CODEC(GCD, ZSTD(3)) COMMENT 's; null: no connection',
    attempt_after_header Array(Nullable(Decimal64(6))) CODEC(GCD, ZSTD(3)) COMMENT 's from attempt_header to attempt_response; attempt_header where that is null',
    attempt_not_response Array(Nullable(Decimal64(6))) CODEC(GCD, ZSTD(3)) COMMENT 's, request_time less attempt_response',
    redirects_after Array(UInt16) CODEC(ZSTD(1)) COMMENT 'numbers (1, 2, ...) of the attempts whose answer an internal redirect followed',
    app_rest Nullable(Decimal64(6)) CODEC(T64('bit'), ZSTD(1)) COMMENT 's, header of the last attempt less app_service_time and app_queueing_delay',
    app_service_time Nullable(Decimal64(6)) CODEC(T64, ZSTD(1)) COMMENT 's, start to response headers, by the app',
    app_garbled Bool CODEC(ZSTD(1)) COMMENT 'the app answered something that is not a duration',
    dropped LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'why values of the line are not used; empty: all are',
    vantage LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'what the times are seen from: proxy, whole (whole requests only) or app; empty: proxy',
    time_step Float64 DEFAULT 0.001 CODEC(ZSTD(1)) COMMENT 's, the step in which time counts',
    source LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'host and file the line was read from',
    ingested DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta, ZSTD(1)) COMMENT 'when the store received it',

    -- The record as it was logged, from the differences. (A literal in request_id would keep its index from being used.)
    request_id String ALIAS if(id_is_text, id_text, lower(concat(
        hex(reinterpretAsFixedString(id_first)), hex(reinterpretAsFixedString(bitXor(record, ${identity_hash})))))),
    -- nginx starts most traces, and the trace id is then the request id: such a row has no second copy of it, but its span id.
    trace String ALIAS if(trace_id = '' AND span_id != '', request_id, trace_id) COMMENT 'trace id',
    start DateTime64(6, 'UTC') ALIAS time - toIntervalMicrosecond(reinterpretAsInt64(request_time)) COMMENT 'when the first byte arrived',
    proxy_start Nullable(DateTime64(6, 'UTC')) ALIAS fromUnixTimestamp64Micro(
        toUnixTimestamp64Micro(time) - reinterpretAsInt64(request_time) + proxy_start_after, 'UTC') COMMENT 'when nginx built the upstream request',
    request_start Nullable(DateTime64(6, 'UTC')) ALIAS fromUnixTimestamp64Micro(
        toUnixTimestamp64Micro(time) - reinterpretAsInt64(request_time) + ifNull(proxy_start_after, 0) + request_start_after, 'UTC')
        COMMENT 'the stamp the app was sent',
    attempt_response Array(Nullable(Decimal64(6))) ALIAS arrayMap(r -> request_time - r, attempt_not_response) COMMENT 's',
    attempt_header Array(Nullable(Decimal64(6))) ALIAS arrayMap(
        (h, r) -> if(r IS NULL, h, request_time - r - h), attempt_after_header, attempt_not_response) COMMENT 's; null: no answer',
    last_response Nullable(Decimal64(6)) ALIAS if(attempts = 0, NULL, request_time - attempt_not_response[-1]) COMMENT 's',
    last_header Nullable(Decimal64(6)) ALIAS multiIf(
        attempts = 0, NULL, attempt_not_response[-1] IS NULL, attempt_after_header[-1], last_response - attempt_after_header[-1])
        COMMENT 's',
    app_queueing_delay Nullable(Decimal64(6)) ALIAS ifNull(last_header - app_service_time, 0) - app_rest
        COMMENT 's, app clock less the stamp, signed, as the app reported it',
    -- The attempt whose times the components are of: sojourn.readers.attempts.
    backend UInt16 ALIAS if(empty(redirects_after) OR app_rest IS NOT NULL OR app_service_time IS NOT NULL OR app_garbled, attempts,
        ifNull(nullIf(arrayFirst(i -> attempt_status[i] BETWEEN 200 AND 399, redirects_after), 0), attempts))
        COMMENT 'number of the backend''s attempt',
    upstream LowCardinality(String) ALIAS if(empty(attempt_addr), '', attempt_addr[backend]) COMMENT 'backend',
    retries Float64 ALIAS if(attempts < 2, 0, toFloat64(arraySum(r -> ifNull(request_time - r, 0), arraySlice(attempt_not_response, 1, backend - 1))))
        COMMENT 's, the attempts before the backend''s',
    redirects Float64 ALIAS if(empty(redirects_after), 0, toFloat64(arraySum(i -> if(i < backend AND attempt_status[i] NOT ${server_errors},
        ifNull(request_time - attempt_not_response[i], 0), 0), redirects_after)))
        COMMENT 's, those of them whose answer an internal redirect replaced: they did not fail',
    redirected Float64 ALIAS if(backend = attempts, 0, toFloat64(arraySum(r -> ifNull(request_time - r, 0), arraySlice(attempt_not_response, backend + 1))))
        COMMENT 's, the attempts after the backend''s: where its internal redirect led to',
    connect Nullable(Float64) ALIAS toFloat64(if(attempts = 0, NULL, attempt_connect[backend])) COMMENT 's',
    header Nullable(Float64) ALIAS toFloat64(if(backend = attempts, last_header, attempt_header[backend])) COMMENT 's; null: no answer',
    response Nullable(Float64) ALIAS toFloat64(if(backend = attempts, last_response, attempt_response[backend])) COMMENT 's',

    INDEX by_request_id request_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX by_trace_id trace_id TYPE bloom_filter(0.01) GRANULARITY 1
)
ENGINE = ${replicated}ReplacingMergeTree
PARTITION BY toYYYYMMDD(time)
PRIMARY KEY (service, route, time)
ORDER BY (service, route, time, record)
-- A block that is sent again must touch its minutes again, so blocks are never skipped for being known: rows are.
SETTINGS replicated_deduplication_window = 0, ttl_only_drop_parts = 1;
