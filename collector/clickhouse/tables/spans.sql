-- One row per span, of any kind; what queueing needs of it in columns, the rest as it came.
-- Distributed by cityHash64(trace_id).
CREATE TABLE IF NOT EXISTS spans${local} ${on_cluster}
(
    start DateTime64(9, 'UTC') CODEC(Delta, ZSTD(1)) COMMENT 'the clock of the app',
    end DateTime64(9, 'UTC') CODEC(Delta, ZSTD(1)) COMMENT 'the end of the answer''s body: the worker was held until then',
    trace_id String CODEC(ZSTD(1)),
    span_id String CODEC(ZSTD(1)),
    parent_span_id String CODEC(ZSTD(1)) COMMENT 'empty: a root',
    request_id String CODEC(ZSTD(1)) COMMENT 'http.request.header.x-request-id; empty: not recorded',
    service LowCardinality(String) COMMENT 'service.name',
    name LowCardinality(String),
    kind LowCardinality(String) COMMENT 'internal, server, client, producer, consumer, unspecified',
    route LowCardinality(String) COMMENT 'http.route',
    worker LowCardinality(String) COMMENT 'queueing.worker',
    status_code UInt16 COMMENT 'http.response.status_code, 0: none',
    error Bool COMMENT 'the span''s own status',
    status_message String CODEC(ZSTD(1)),
    queueing_delay Nullable(Decimal64(6)) CODEC(T64, ZSTD(1)) COMMENT 's, queueing.delay: corrected by the app',
    queueing_delay_raw Nullable(Decimal64(6)) CODEC(T64, ZSTD(1)) COMMENT 's, queueing.delay.raw, signed',
    clock_offset Nullable(Decimal64(6)) CODEC(T64, ZSTD(1)) COMMENT 's, queueing.clock_offset',
    queueing_status LowCardinality(String) COMMENT 'ok, missing, unparsable, future, stale',
    service_time Nullable(Decimal64(6)) CODEC(T64, ZSTD(1)) COMMENT 's, queueing.service_time: start to response headers',
    attributes Map(LowCardinality(String), String) CODEC(ZSTD(1)) COMMENT 'those without a column of their own',
    resource Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    events Array(Tuple(time DateTime64(9, 'UTC'), name String)) CODEC(ZSTD(1)),
    ingested DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta, ZSTD(1)),

    seconds Float64 ALIAS dateDiff('nanosecond', start, end) / 1e9,

    INDEX by_request_id request_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX by_trace_id trace_id TYPE bloom_filter(0.01) GRANULARITY 1
)
ENGINE = ${replicated}ReplacingMergeTree
PARTITION BY toYYYYMMDD(start)
PRIMARY KEY (service, name, start)
ORDER BY (service, name, start, trace_id, span_id)
SETTINGS replicated_deduplication_window = 0, ttl_only_drop_parts = 1;
