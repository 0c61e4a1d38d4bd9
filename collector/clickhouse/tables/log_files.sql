-- The files of the logs, sampled on the host of their agent every few seconds: how long each is, and how much of it the agent has
-- read. A file is known by its first line, whatever its name is, and a rotated one is a file of its log. A row has the samples of ten
-- seconds in which it grew or was not read to its end; one with an empty file is there whenever the sampler itself runs.
-- Distributed by cityHash64(source).
CREATE TABLE IF NOT EXISTS log_files${local} ${on_cluster}
(
    host LowCardinality(String),
    source LowCardinality(String) COMMENT 'host and log, as in line_runs',
    file String COMMENT 'checksum of its first line; empty: the sampler',
    slot DateTime('UTC') CODEC(Delta, ZSTD(1)) COMMENT 'ten seconds from here, by the clock that stamps the records',
    sampled SimpleAggregateFunction(max, DateTime64(3, 'UTC')) COMMENT 'last sample, by a clock that is never set back',
    arrived SimpleAggregateFunction(max, DateTime('UTC')) COMMENT 'when the store took the last sample',
    present SimpleAggregateFunction(max, DateTime64(3, 'UTC')) COMMENT 'last sample in which it was on the disk',
    began SimpleAggregateFunction(min, DateTime64(3, 'UTC')) COMMENT 'time of its first record; 2100: it has none',
    written SimpleAggregateFunction(max, DateTime64(3, 'UTC')) COMMENT 'when it was last written',
    low SimpleAggregateFunction(min, UInt64) COMMENT 'least size in these ten seconds, bytes',
    size SimpleAggregateFunction(max, UInt64) COMMENT 'greatest size',
    read SimpleAggregateFunction(max, Int64) COMMENT 'bytes of it that the store has acknowledged to the agent; -1: not known',
    judged SimpleAggregateFunction(min, UInt64) COMMENT 'bytes before this were read before there were samples'
)
ENGINE = ${replicated}AggregatingMergeTree
PARTITION BY toYYYYMM(slot)
ORDER BY (source, file, slot, host)
SETTINGS replicated_deduplication_window = 0;
