-- Minutes in which something arrived, and when they were last computed: what 070 goes by.
CREATE TABLE IF NOT EXISTS touched_minutes${local} ${on_cluster}
(
    minute DateTime('UTC'),
    touched SimpleAggregateFunction(max, DateTime64(3, 'UTC')) COMMENT 'when a row of that minute last arrived',
    computed SimpleAggregateFunction(max, DateTime64(3, 'UTC')) COMMENT 'when its rollup was last begun; 1970: never',
    arrived SimpleAggregateFunction(sum, UInt64) COMMENT 'rows that arrived, duplicates too: how much work it is'
)
ENGINE = ${replicated}AggregatingMergeTree
ORDER BY minute
SETTINGS replicated_deduplication_window = 0;

-- nowInBlock64 and not ingested: a long INSERT carries the instant it began, its later blocks arrive long after.
CREATE MATERIALIZED VIEW IF NOT EXISTS touched_minutes_of_requests${local} ${on_cluster} TO touched_minutes${local}
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT
    toStartOfMinute(time) AS minute,
    max(nowInBlock64(3)) AS touched,
    toDateTime64(0, 3, 'UTC') AS computed,
    count() AS arrived
FROM requests${local}
GROUP BY minute;

-- A minute of one backend and route in one row, made anew from requests whenever something arrived for that minute. (An
-- ordinary materialized view would count a record delivered twice as two, and nothing that was there before it.)
CREATE TABLE IF NOT EXISTS rollup_minute${local} ${on_cluster}
(
    minute DateTime('UTC') CODEC(Delta, ZSTD(1)) COMMENT 'in which the requests ended',
    service LowCardinality(String),
    route LowCardinality(String),
    proxy LowCardinality(String),
    upstream LowCardinality(String) COMMENT 'backend that answered; empty: none was asked',
    computed DateTime64(3, 'UTC'),

    -- Counts. Connections upgraded to another protocol (101) are in upgraded and nowhere else.
    requests UInt64 CODEC(T64, ZSTD(1)),
    upgraded UInt64 CODEC(T64, ZSTD(1)),
    errors UInt64 CODEC(T64, ZSTD(1)) COMMENT '5xx',
    timeouts UInt64 CODEC(T64, ZSTD(1)) COMMENT '504: the proxy gave up',
    abandoned UInt64 CODEC(T64, ZSTD(1)) COMMENT '499: the client gave up',
    unmeasured UInt64 CODEC(T64, ZSTD(1)) COMMENT 'answered, and the app said nothing of its own',
    negative UInt64 CODEC(T64, ZSTD(1)) COMMENT 'queueing delay below zero',

    -- Seconds, summed over the requests; where unknown, nothing. They add up to response_seconds.
    response_seconds Float64 CODEC(ZSTD(1)),
    queueing_seconds Float64 CODEC(ZSTD(1)) COMMENT 'header time - service time, which needs no clock; the connect time where that is unknown',
    service_seconds Float64 CODEC(ZSTD(1)),
    upload_seconds Float64 CODEC(ZSTD(1)),
    retries_seconds Float64 CODEC(ZSTD(1)),
    transfer_seconds Float64 CODEC(ZSTD(1)),
    send_seconds Float64 CODEC(ZSTD(1)),
    unattributed_seconds Float64 CODEC(ZSTD(1)),

    -- Quantiles of MICROSECONDS, to 1 % of the value (DDSketch: Masson, Rim & Lee 2019); merge them, never average. Not of
    -- seconds: the engine's sketch rounds the wrong way for values below 1, and is off by up to 3 % there.
    response_quantiles AggregateFunction(quantilesDD(0.01, 0.5, 0.9, 0.99, 0.999), Float64) CODEC(ZSTD(1)),
    queueing_quantiles AggregateFunction(quantilesDD(0.01, 0.5, 0.9, 0.99, 0.999), Float64) CODEC(ZSTD(1)),
    service_quantiles AggregateFunction(quantilesDD(0.01, 0.5, 0.9, 0.99, 0.999), Float64) CODEC(ZSTD(1)),

    -- Histograms: bucket b holds [10^(b/20), 10^((b+1)/20)) seconds, 20 to a decade; -80 holds all below 0.1 ms.
    response_histogram Map(Int16, UInt64) CODEC(ZSTD(1)),
    queueing_histogram Map(Int16, UInt64) CODEC(ZSTD(1)),
    service_histogram Map(Int16, UInt64) CODEC(ZSTD(1)),

    -- Seconds by the bucket of the RESPONSE time: what the slow requests of any window were made of.
    queueing_by_response Map(Int16, Float64) CODEC(ZSTD(1)),
    service_by_response Map(Int16, Float64) CODEC(ZSTD(1)),
    upload_by_response Map(Int16, Float64) CODEC(ZSTD(1)),
    retries_by_response Map(Int16, Float64) CODEC(ZSTD(1)),
    transfer_by_response Map(Int16, Float64) CODEC(ZSTD(1)),
    send_by_response Map(Int16, Float64) CODEC(ZSTD(1)),
    unattributed_by_response Map(Int16, Float64) CODEC(ZSTD(1)),

    workers AggregateFunction(uniqExact, String) COMMENT 'that served',

    -- Bounds of the clock offset, app less proxy, s (Paxson 1998): see sojourn.explain.clock. NULL: no request tells.
    clock_upper Nullable(Float64) COMMENT 'smallest stamp to start, less the connect time',
    clock_lower Nullable(Float64) COMMENT 'largest start + service time - header time',
    clock_connect Nullable(Float64) COMMENT 'smallest connect time: a round trip',
    clock_requests UInt64 CODEC(T64, ZSTD(1)) COMMENT 'that the bounds rest on',
    clock_fine UInt64 CODEC(T64, ZSTD(1)) COMMENT 'of these, with a stamp or a header time finer than a millisecond'
)
ENGINE = ${replicated}ReplacingMergeTree(computed)
PARTITION BY toYYYYMM(minute)
ORDER BY (service, route, upstream, proxy, minute)
SETTINGS replicated_deduplication_window = 0;
