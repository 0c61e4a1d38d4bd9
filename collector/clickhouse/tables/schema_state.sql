-- The files of the schema that this store has, as they were applied: `sojourn store init` compares them with its own.
-- Distributed by cityHash64(name).
CREATE TABLE IF NOT EXISTS schema_state${local} ${on_cluster}
(
    name String COMMENT 'folder and name of the file, such as views/requests_split',
    checksum FixedString(64) COMMENT 'SHA-256 of its text and of the texts that it uses',
    applied DateTime64(3, 'UTC') DEFAULT now64(3)
)
ENGINE = ${replicated}ReplacingMergeTree(applied)
ORDER BY name
SETTINGS replicated_deduplication_window = 0;
