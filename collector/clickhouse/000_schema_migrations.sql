-- Which of these files a store has seen: sojourn store init reads it, and refuses a file that changed since.
CREATE TABLE IF NOT EXISTS schema_migrations${local} ${on_cluster}
(
    version UInt16 COMMENT 'the number the file''s name begins with',
    name String,
    checksum FixedString(64) COMMENT 'SHA-256 of the file',
    applied DateTime64(3, 'UTC') DEFAULT now64(3)
)
ENGINE = ${replicated}ReplacingMergeTree(applied)
ORDER BY (version, name)
SETTINGS replicated_deduplication_window = 0;
