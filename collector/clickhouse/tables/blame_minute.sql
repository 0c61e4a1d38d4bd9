-- Waiting by cause, by the minute in which the wait ended: what `sojourn store explain` computed. A minute that is computed
-- again replaces the earlier result: a row that is no longer valid is there again, with 0 seconds. Summed over all rows, the
-- seconds are the measured wait.
-- Distributed by cityHash64(service, minute).
CREATE TABLE IF NOT EXISTS blame_minute${local} ${on_cluster}
(
    minute DateTime('UTC') CODEC(Delta, ZSTD(1)) COMMENT 'in which the waits ended',
    service LowCardinality(String),
    upstream LowCardinality(String) COMMENT 'backend that was waited for',
    victim LowCardinality(String) COMMENT 'route that waited',
    culprit LowCardinality(String) COMMENT 'route in service then; empty but for blamed, and there where no app said',
    account LowCardinality(String) COMMENT 'blamed, imbalance (another backend was free) or dispatch (its own was)',
    seconds Float64 CODEC(ZSTD(1)),
    version DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)) COMMENT 'when its computation began'
)
ENGINE = ${replicated}ReplacingMergeTree(version)
PARTITION BY toYYYYMM(minute)
ORDER BY (minute, service, upstream, account, victim, culprit)
SETTINGS replicated_deduplication_window = 0;
