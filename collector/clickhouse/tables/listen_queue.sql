-- The accept queue of every listening socket, sampled about once a second.
-- Distributed by cityHash64(machine, socket).
CREATE TABLE IF NOT EXISTS listen_queue${local} ${on_cluster}
(
    time DateTime64(6, 'UTC') CODEC(Delta, ZSTD(1)),
    machine LowCardinality(String) COMMENT 'whose kernel has the queue',
    socket LowCardinality(String) COMMENT 'name of the app, or address',
    port UInt16,
    depth UInt32 CODEC(T64, ZSTD(1)) COMMENT 'connections waiting to be accepted',
    backlog UInt32 CODEC(T64, ZSTD(1)) COMMENT 'its limit, after the kernel capped it (somaxconn)'
)
ENGINE = ${replicated}ReplacingMergeTree
PARTITION BY toYYYYMM(time)
ORDER BY (machine, socket, port, time)
SETTINGS replicated_deduplication_window = 0;
