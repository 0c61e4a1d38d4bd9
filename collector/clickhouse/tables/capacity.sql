-- Requests a second that a service bears before its objective breaks, as `sojourn capacity` measured it and a user stored it
-- here: what alerts and dashboards hold the load against. 0: none.
-- Distributed by cityHash64(service).
CREATE TABLE IF NOT EXISTS capacity${local} ${on_cluster}
(
    service LowCardinality(String),
    rate Float64 COMMENT 'requests/s, of all its instances',
    version DateTime64(3, 'UTC') DEFAULT now64(3) COMMENT 'when it was set; the last one counts'
)
ENGINE = ${replicated}ReplacingMergeTree(version)
ORDER BY service
SETTINGS replicated_deduplication_window = 0;
