-- Metrics of an agent, as Vector's metric_to_log writes them. Nothing is stored here; the views of incoming/metrics.sql parse
-- each line once.
-- Distributed by cityHash64(line).
CREATE TABLE IF NOT EXISTS incoming_pipeline_metrics${local} ${on_cluster}
(
    line String COMMENT 'a counter, a gauge or a histogram; any other line is ignored',
    ${line_columns}${guard}
)
ENGINE = Null;
