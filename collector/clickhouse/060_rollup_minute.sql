-- A minute of one backend and route in one row, made anew from requests whenever something arrived for that minute.
-- An ordinary materialized view would count a record delivered twice as two, and nothing that was there before it.
CREATE TABLE IF NOT EXISTS touched_minutes${local} ${on_cluster}
(
    minute DateTime('UTC'),
    touched DateTime64(3, 'UTC') COMMENT 'when a row of that minute last arrived'
)
ENGINE = ${replicated}ReplacingMergeTree(touched)
PARTITION BY toYYYYMM(minute)
ORDER BY minute;

CREATE MATERIALIZED VIEW IF NOT EXISTS touched_minutes_of_requests${local} ${on_cluster} TO touched_minutes${local} AS
SELECT toStartOfMinute(time) AS minute, max(ingested) AS touched
FROM requests${local}
GROUP BY minute;

CREATE TABLE IF NOT EXISTS rollup_minute${local} ${on_cluster}
(
    minute DateTime('UTC') CODEC(Delta, ZSTD(1)) COMMENT 'in which the requests ended',
    service LowCardinality(String),
    route LowCardinality(String),
    proxy LowCardinality(String),
    upstream LowCardinality(String) COMMENT 'backend that answered; empty: none was asked',
    computed DateTime64(3, 'UTC'),

    -- Counts. Connections upgraded to another protocol (101) are in upgraded and nowhere else.
    requests UInt64,
    upgraded UInt64,
    errors UInt64 COMMENT '5xx',
    timeouts UInt64 COMMENT '504: the proxy gave up',
    abandoned UInt64 COMMENT '499: the client gave up',
    unmeasured UInt64 COMMENT 'answered, and the app said nothing of its own',
    negative UInt64 COMMENT 'queueing delay below zero',

    -- Seconds, summed over the requests; where unknown, nothing. They add up to response_seconds.
    response_seconds Float64,
    queueing_seconds Float64 COMMENT 'header time - service time, which needs no clock',
    service_seconds Float64,
    upload_seconds Float64,
    retries_seconds Float64,
    transfer_seconds Float64,
    send_seconds Float64,
    unattributed_seconds Float64,

    -- Quantiles, to 1 % of the value (DDSketch: Masson, Rim & Lee 2019); merge them, never average.
    response_quantiles AggregateFunction(quantilesDD(0.01, 0.5, 0.9, 0.99, 0.999), Float64),
    queueing_quantiles AggregateFunction(quantilesDD(0.01, 0.5, 0.9, 0.99, 0.999), Float64),
    service_quantiles AggregateFunction(quantilesDD(0.01, 0.5, 0.9, 0.99, 0.999), Float64),

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

    -- Bounds of the clock offset, app less proxy, s (Paxson 1998): see sojourn.explain.clock.
    clock_upper Nullable(Float64),
    clock_lower Nullable(Float64),
    clock_connect Nullable(Float64),
    clock_requests UInt64
)
ENGINE = ${replicated}ReplacingMergeTree(computed)
PARTITION BY toYYYYMM(minute)
ORDER BY (service, route, upstream, proxy, minute);
