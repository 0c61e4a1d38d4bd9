-- Minutes whose blame was computed, and when that last began: one touched since then is due again.
-- Distributed by toUInt64(minute).
CREATE TABLE IF NOT EXISTS explained_minutes${local} ${on_cluster}
(
    minute DateTime('UTC') CODEC(Delta, ZSTD(1)),
    version DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1))
)
ENGINE = ${replicated}ReplacingMergeTree(version)
PARTITION BY toYYYYMM(minute)
ORDER BY minute
SETTINGS replicated_deduplication_window = 0;
