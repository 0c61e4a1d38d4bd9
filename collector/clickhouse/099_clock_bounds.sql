-- Bounds of the clock offset (app less proxy) by the hour in which the requests ended: least and greatest values, which
-- a record delivered twice does not change. The views of 101 make offsets of them.
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

-- Requests answered at the first attempt only: every attempt before adds nginx's rounding once more.
CREATE MATERIALIZED VIEW IF NOT EXISTS clock_bounds_of_requests${local} ${on_cluster} TO clock_bounds${local}
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT
    toStartOfHour(time) AS hour,
    proxy,
    upstream,
    min(assumeNotNull(app_start) - ifNull(connect, 0)) AS upper,
    max(assumeNotNull(app_start) + assumeNotNull(service_time) - assumeNotNull(header)) AS lower,
    min(ifNull(connect, 0)) AS round_trip,
    max(toUnixTimestamp64Micro(assumeNotNull(proxy_start)) % 1000 != 0
        OR toInt64(round(assumeNotNull(header) * 1e6)) % 1000 != 0) AS fine,
    count() AS requests
FROM requests${local}
WHERE attempts = 1 AND app_start IS NOT NULL AND service_time IS NOT NULL
GROUP BY hour, proxy, upstream;

-- What the rollups of an older store know. 101 takes these columns off them. Repeated after an interruption, it adds to
-- the count of requests alone.
INSERT INTO clock_bounds${local} (hour, proxy, upstream, upper, lower, round_trip, fine, requests)
SELECT
    toStartOfHour(minute) AS hour, proxy, upstream, min(assumeNotNull(clock_upper)), max(assumeNotNull(clock_lower)),
    min(assumeNotNull(clock_connect)), max(clock_fine > 0), sum(clock_requests)
FROM rollup_minute${local} FINAL
WHERE clock_requests > 0
GROUP BY hour, proxy, upstream;
