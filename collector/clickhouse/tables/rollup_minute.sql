-- A minute of one backend and route in one row, computed again from requests whenever something arrived for that minute. (An
-- ordinary materialized view would count a record delivered twice as two.)
-- Distributed.
CREATE TABLE IF NOT EXISTS rollup_minute${local} ${on_cluster}
(
    minute DateTime('UTC') CODEC(Delta, ZSTD(1)) COMMENT 'in which the requests ended',
    service LowCardinality(String),
    route LowCardinality(String),
    proxy LowCardinality(String),
    upstream LowCardinality(String) COMMENT 'backend that answered; empty: none was contacted',
    computed DateTime64(3, 'UTC'),

    -- Counts. Connections upgraded to another protocol are in upgraded and nowhere else.
    requests UInt64 CODEC(T64, ZSTD(1)),
    upgraded UInt64 CODEC(T64, ZSTD(1)),
    failed UInt64 CODEC(T64, ZSTD(1)) COMMENT 'server errors, and those that the client abandoned',
    timeouts UInt64 CODEC(T64, ZSTD(1)) COMMENT 'the proxy gave up: ${timed_out}',
    abandoned UInt64 CODEC(T64, ZSTD(1)) COMMENT 'the client gave up: ${abandoned}',
    unmeasured UInt64 CODEC(T64, ZSTD(1)) COMMENT 'answered, and the app reported nothing',
    app_alone UInt64 CODEC(T64, ZSTD(1)) COMMENT 'answered, in the log of an app server itself: their wait is not in it',
    negative UInt64 CODEC(T64, ZSTD(1)) COMMENT 'queueing delay below zero',

    -- Seconds, summed over the requests; where unknown, nothing. They add up to response_seconds. queueing: the queueing delay;
    -- the proxy's own queue and the connect time where it is unknown.
    response_seconds Float64 CODEC(ZSTD(1)),
    ${part_seconds}

    -- How much of the waits is known. Of a request whose wait is unknown, queueing_seconds has what the proxy saw of it.
    waits_proxied Float64 CODEC(ZSTD(1)) COMMENT 'requests that went to a backend',
    waits_measured Float64 CODEC(ZSTD(1)) COMMENT 'requests with a known queueing delay',
    waits_measured_seconds Float64 CODEC(ZSTD(1)) COMMENT 'response time of these, and of requests without a backend',
    waits_queueing Float64 CODEC(ZSTD(1)) COMMENT 'queueing delay of these',
    waits_part_seconds Float64 CODEC(ZSTD(1)) COMMENT 'response time of requests of which only the wait that the proxy saw is known',
    waits_part_queueing Float64 CODEC(ZSTD(1)) COMMENT 'that wait',
    waits_part_queue Float64 CODEC(ZSTD(1)) COMMENT 'of that wait, the part in the proxy''s own queue',

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
    ${parts_by_response}

    workers AggregateFunction(uniqExact, String) COMMENT 'that served'
)
ENGINE = ${replicated}ReplacingMergeTree(computed)
PARTITION BY toYYYYMM(minute)
ORDER BY (service, route, upstream, proxy, minute)
SETTINGS replicated_deduplication_window = 0;
