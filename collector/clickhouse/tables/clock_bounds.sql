-- Bounds of the clock offset (app less proxy) by the hour in which the requests ended: least and greatest values, which
-- a record delivered twice does not change. The view clock_offsets makes offsets of them.
-- Distributed.
CREATE TABLE IF NOT EXISTS clock_bounds${local} ${on_cluster}
(
    hour DateTime('UTC') CODEC(Delta, ZSTD(1)),
    proxy LowCardinality(String),
    upstream LowCardinality(String),
    upper SimpleAggregateFunction(min, Float64) COMMENT 's, smallest stamp to start, less the connect time',
    lower SimpleAggregateFunction(max, Float64) COMMENT 's, largest start + service time - header time',
    round_trip SimpleAggregateFunction(min, Float64) COMMENT 's, smallest connect time',
    fine SimpleAggregateFunction(max, UInt8) COMMENT '1: a stamp or a header time is finer than a millisecond',
    requests SimpleAggregateFunction(sum, UInt64) COMMENT 'that the bounds rest on, each delivery counted'
)
ENGINE = ${replicated}AggregatingMergeTree
ORDER BY (hour, proxy, upstream)
SETTINGS replicated_deduplication_window = 0;
