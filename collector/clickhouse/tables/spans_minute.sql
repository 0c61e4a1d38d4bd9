-- Requests whose app answered with the headers of the middleware, and those of them without a span, one row a minute: what
-- spans_missing goes by. The lists have one element for each service, route and file. A minute is counted ten minutes after its
-- last request arrived, and again when four times as long has passed, up to a day: spans can arrive later than lines. The row
-- that was computed last counts.
-- Distributed.
CREATE TABLE IF NOT EXISTS spans_minute${local} ${on_cluster}
(
    minute DateTime('UTC') CODEC(Delta, ZSTD(1)) COMMENT 'in which the requests ended',
    computed DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    counts Nested(
        service LowCardinality(String),
        route LowCardinality(String),
        source LowCardinality(String),
        requests UInt64,
        without_span UInt64) CODEC(ZSTD(1))
)
ENGINE = ${replicated}ReplacingMergeTree(computed)
PARTITION BY toYYYYMM(minute)
ORDER BY minute
SETTINGS replicated_deduplication_window = 0;
