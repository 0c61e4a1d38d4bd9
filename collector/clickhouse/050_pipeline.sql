-- What the agents say of themselves: Vector's internal counters and gauges as they stood.
CREATE TABLE IF NOT EXISTS pipeline_metrics${local} ${on_cluster}
(
    time DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    agent LowCardinality(String) COMMENT 'host of the agent',
    component LowCardinality(String) COMMENT 'component_id in its configuration',
    metric LowCardinality(String),
    file LowCardinality(String) COMMENT 'empty: not about a file',
    tags Map(LowCardinality(String), String) CODEC(ZSTD(1)) COMMENT 'the other tags',
    value Float64 CODEC(Gorilla, ZSTD(1))
)
ENGINE = ${replicated}ReplacingMergeTree
PARTITION BY toYYYYMM(time)
ORDER BY (metric, agent, component, file, time, cityHash64(toString(tags)))
SETTINGS replicated_deduplication_window = 0;

-- Rows as they arrive, before anything collapses: by file and minute of arrival. Read against the lines the agents read.
CREATE TABLE IF NOT EXISTS arrivals${local} ${on_cluster}
(
    minute DateTime('UTC') CODEC(Delta, ZSTD(1)),
    kind LowCardinality(String) COMMENT 'requests or dead_letters',
    source LowCardinality(String),
    lines UInt64 CODEC(T64, ZSTD(1))
)
ENGINE = ${replicated}SummingMergeTree
PARTITION BY toYYYYMM(minute)
ORDER BY (kind, source, minute)
SETTINGS replicated_deduplication_window = 0;

CREATE MATERIALIZED VIEW IF NOT EXISTS arrivals_of_requests${local} ${on_cluster} TO arrivals${local}
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT toStartOfMinute(ingested) AS minute, 'requests' AS kind, source, count() AS lines
FROM requests${local}
GROUP BY minute, source;

CREATE MATERIALIZED VIEW IF NOT EXISTS arrivals_of_dead_letters${local} ${on_cluster} TO arrivals${local}
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT toStartOfMinute(now()) AS minute, 'dead_letters' AS kind, source, count() AS lines
FROM dead_letters${local} AS d
WHERE d.kind = 'requests' -- bare, the name would be that of the column above
GROUP BY minute, source;
