-- A sample of the files of the logs.
CREATE TABLE IF NOT EXISTS incoming_file_samples${local} ${on_cluster}
(
    text String,
    too_long Bool,
    is_sound Bool,
    time Nullable(Int64) COMMENT 'unix milliseconds',
    clock Nullable(Int64) COMMENT 'unix seconds',
    files Array(${file_sample}),
    host LowCardinality(String),
    source LowCardinality(String),
    position UInt64,
    redact Bool
)
ENGINE = Null;

CREATE MATERIALIZED VIEW IF NOT EXISTS incoming_log_files_to_file_samples${local} ${on_cluster} TO incoming_file_samples${local}
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
WITH
    ${line_text},
    if(match(text, '^[ \\t]*\\{'), text, '') AS object,
    (key, unit) -> accurateCastOrNull(round(JSONExtract(object, key, 'Nullable(Float64)') * unit), 'Int64') AS instant,
    ${log_name}
SELECT
    text,
    too_long,
    instant('time', 1000) AS time,
    instant('clock', 1) AS clock,
    JSONExtract(object, 'files', 'Array(${file_sample})') AS files,
    -- Ten digits of seconds.
    ifNull(time BETWEEN 1000000000000 AND 9999999999999 AND clock BETWEEN 1000000000 AND 9999999999, false)
        AND JSONType(object, 'files') = 'Array'
        AND length(files) = JSONLength(object, 'files') AND NOT arrayExists(f -> f.file = '' OR f.id = '', files) AS is_sound,
    i.host AS host,
    ${line_source}
FROM incoming_log_files${local} AS i;

CREATE MATERIALIZED VIEW IF NOT EXISTS file_samples_to_log_files${local} ${on_cluster} TO log_files${local}
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
WITH
    ${log_name},
    (seconds) -> fromUnixTimestamp64Milli(toInt64(seconds * 1000), 'UTC') AS instant
SELECT
    host,
    if(f.id = '', host, concat(host, ':', log_name(f.file))) AS source,
    f.id AS file,
    toDateTime(intDiv(assumeNotNull(clock), 10) * 10, 'UTC') AS slot,
    fromUnixTimestamp64Milli(assumeNotNull(time), 'UTC') AS sampled,
    now('UTC') AS arrived,
    if(f.gone, toDateTime64(0, 3, 'UTC'), sampled) AS present,
    instant(if(f.began BETWEEN 1000000000 AND 4102444800, assumeNotNull(f.began), 4102444800)) AS began,
    instant(if(f.written BETWEEN 0 AND 4102444800, f.written, 4102444800)) AS written,
    f.size AS low,
    f.size AS size,
    if(f.read IS NULL, -1, toInt64(assumeNotNull(f.read))) AS read,
    f.judged AS judged
FROM
(
    -- The sampler is a file without a name: it shows that there are samples, also while every log is read to its end.
    SELECT host, time, clock, arrayJoin(arrayPushFront(files, CAST(('', '', NULL, 0, 0, NULL, 0, false), '${file_sample}'))) AS f
    FROM incoming_file_samples${local}
    WHERE is_sound
);

CREATE MATERIALIZED VIEW IF NOT EXISTS file_samples_to_dead_letters${local} ${on_cluster} TO dead_letters${local}
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
WITH
    ${redacted_text} AS redacted
SELECT
    now64(3) AS time,
    'log_files' AS kind,
    source,
    position,
    if(too_long, 'line_too_long', 'invalid_sample') AS reason,
    ${raw_line}
FROM incoming_file_samples${local}
WHERE NOT is_sound;
