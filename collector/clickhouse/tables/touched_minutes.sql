-- Minutes in which something arrived, and when they were last computed: what minutes_due goes by.
-- Distributed.
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
