-- Which records arrived: a set of hashes for each file and hour, which lost_records compares with the rows that are stored. A
-- record that is delivered twice is in its set once. Up to 65,536 records a set is exact; beyond, it is a sample of them that
-- is the same wherever it is drawn (uniq: adaptive sampling), so that the sets of equal rows are always equal.
-- Distributed.
CREATE TABLE IF NOT EXISTS records_received${local} ${on_cluster}
(
    kind LowCardinality(String) COMMENT 'requests or dead_letters',
    hour DateTime('UTC') CODEC(Delta, ZSTD(1)) COMMENT 'in which the request ended, or the line was refused',
    source LowCardinality(String) COMMENT 'host and file',
    records AggregateFunction(uniq, UInt64) CODEC(NONE)
)
ENGINE = ${replicated}AggregatingMergeTree
PARTITION BY toYYYYMM(hour)
ORDER BY (kind, hour, source)
SETTINGS replicated_deduplication_window = 0;
