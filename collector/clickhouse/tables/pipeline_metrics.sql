-- Metrics of the agents: Vector's internal counters and gauges as they stood.
-- Distributed by cityHash64(agent, file).
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
