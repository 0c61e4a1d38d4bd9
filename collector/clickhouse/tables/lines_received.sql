-- Lines by file and minute of arrival, before anything collapses. A line that is delivered twice counts twice.
-- Distributed.
CREATE TABLE IF NOT EXISTS lines_received${local} ${on_cluster}
(
    minute DateTime('UTC') CODEC(Delta, ZSTD(1)),
    kind LowCardinality(String) COMMENT 'requests or dead_letters',
    source LowCardinality(String),
    lines UInt64 CODEC(T64, ZSTD(1))
)
ENGINE = ${replicated}SummingMergeTree
PARTITION BY toYYYYMM(minute)
ORDER BY (kind, source, minute)
SETTINGS replicated_deduplication_window = 0;
