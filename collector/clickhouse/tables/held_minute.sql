-- Seconds for which workers were held, by the minute in which they fell: what `sojourn store explain` computed from the
-- requests that have ended. A minute that is computed again replaces the earlier result: a row that is no longer valid is
-- there again, with 0 seconds. Backends whose workers serve several requests at a time have no rows.
-- Distributed by cityHash64(service, minute).
CREATE TABLE IF NOT EXISTS held_minute${local} ${on_cluster}
(
    minute DateTime('UTC') CODEC(Delta, ZSTD(1)) COMMENT 'in which the workers were held',
    service LowCardinality(String),
    upstream LowCardinality(String) COMMENT 'backend',
    phase LowCardinality(String) COMMENT 'read, service, body, after; at_least: all phases, a lower bound, because more may hold the workers than the log shows',
    seconds Float64 CODEC(ZSTD(1)),
    workers UInt32 CODEC(T64, ZSTD(1)) COMMENT 'of the backend, all its services together; 0: unknown',
    version DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)) COMMENT 'when its computation began'
)
ENGINE = ${replicated}ReplacingMergeTree(version)
PARTITION BY toYYYYMM(minute)
ORDER BY (minute, service, upstream, phase)
SETTINGS replicated_deduplication_window = 0;
