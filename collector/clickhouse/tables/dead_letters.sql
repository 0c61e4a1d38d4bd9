-- What could not become a row: the line as it came, and why. Nothing is dropped without a trace here.
-- Distributed by cityHash64(raw).
CREATE TABLE IF NOT EXISTS dead_letters${local} ${on_cluster}
(
    time DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)) COMMENT 'when it was refused',
    kind LowCardinality(String) COMMENT 'requests, spans, app_log, listen_queue or log_files: what it was meant to be',
    source LowCardinality(String) COMMENT 'host and file',
    position UInt64 CODEC(ZSTD(1)) COMMENT 'byte at which the line begins in its file, decompressed; 0 also where there is no file',
    reason LowCardinality(String) COMMENT 'as sojourn split names it',
    raw String CODEC(ZSTD(3)) COMMENT 'the line, as text; bytes that are not UTF-8 are replaced'
)
ENGINE = ${replicated}ReplacingMergeTree
-- No partitions: a line refused again a month later must meet itself.
ORDER BY (kind, source, reason, position, cityHash64(raw))
SETTINGS replicated_deduplication_window = 0;
