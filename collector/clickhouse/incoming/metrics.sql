-- How a metric of an agent becomes rows of pipeline_metrics.

CREATE TABLE IF NOT EXISTS incoming_metrics${local} ${on_cluster}
(
    r ${metric}
)
ENGINE = Null;

CREATE MATERIALIZED VIEW IF NOT EXISTS incoming_pipeline_metrics_to_metrics${local} ${on_cluster} TO incoming_metrics${local}
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT JSONExtract(toValidUTF8(line), '${metric}') AS r
FROM incoming_pipeline_metrics${local}
WHERE match(line, '^[ \\t]*\\{');

CREATE MATERIALIZED VIEW IF NOT EXISTS metrics_to_pipeline_metrics${local} ${on_cluster} TO pipeline_metrics${local}
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
WITH
    coalesce(r.counter.value, r.gauge.value) AS single,
    r.aggregated_histogram AS histogram,
    ${log_name},
    -- Of a rotated file the tag path distinguishes the counters.
    r.tags['file'] AS path,
    log_name(path) AS log,
    multiIf(
        single IS NOT NULL, [('', assumeNotNull(single))],
        histogram.count IS NOT NULL, [('_count', assumeNotNull(histogram.count)), ('_sum', ifNull(histogram.sum, 0))],
        []) AS figures
SELECT
    ifNull(parseDateTime64BestEffortOrNull(if(r.timestamp LIKE '____-__-__T__:__:__%Z', r.timestamp, ''), 3, 'UTC'), now64(3, 'UTC')) AS time,
    r.host AS agent,
    r.tags['component_id'] AS component,
    concat(r.name, figure.1) AS metric,
    log AS file,
    CAST(arrayConcat(
        arrayFilter(
            t -> t.1 NOT IN ('component_id', 'host', 'file') AND NOT (t.1 = 'path' AND path != log),
            CAST(r.tags, 'Array(Tuple(String, String))')),
        if(path = log, [], [('path', path)])), 'Map(LowCardinality(String), String)') AS tags,
    figure.2 AS value
FROM incoming_metrics${local}
ARRAY JOIN figures AS figure;
