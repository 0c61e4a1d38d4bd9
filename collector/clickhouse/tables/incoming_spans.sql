-- Lines of spans: an OTLP export request in JSON, with any number of spans, or one span as Vector writes it. Nothing is stored
-- here; the views of incoming/spans.sql parse each line once.
-- Distributed by cityHash64(line).
CREATE TABLE IF NOT EXISTS incoming_spans${local} ${on_cluster}
(
    line String COMMENT '{"resourceSpans": [...]}, or an event of Vector''s source opentelemetry',
    ${line_columns}${guard}
)
ENGINE = Null;
