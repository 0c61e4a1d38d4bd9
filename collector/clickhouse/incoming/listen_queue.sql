-- A sample of an accept queue.
CREATE TABLE IF NOT EXISTS incoming_samples${local} ${on_cluster}
(
    text String,
    too_long Bool,
    is_sound Bool,
    us Nullable(Int64) COMMENT 'unix microseconds',
    socket String,
    port Nullable(UInt64),
    depth Nullable(UInt64),
    backlog Nullable(UInt64),
    machine String,
    source LowCardinality(String),
    position UInt64,
    redact Bool
)
ENGINE = Null;

CREATE MATERIALIZED VIEW IF NOT EXISTS incoming_listen_queue_to_samples${local} ${on_cluster} TO incoming_samples${local}
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
WITH
    ${line_text},
    JSONExtract(if(match(text, '^[ \\t]*\\{'), text, ''),
        'Tuple(time String, socket String, port String, depth String, limit String, machine String)') AS r,
    accurateCastOrNull(round(toFloat64OrNull(r.time) * 1e6), 'Int64') AS us,
    ${log_name}
SELECT
    text,
    too_long,
    -- Ten digits of seconds; a column of the table holds no more.
    ifNull(us > 0 AND us < 10000000000000000 AND port <= 65535 AND depth <= 4294967295 AND backlog <= 4294967295, false)
        AND JSONType(text, 'socket') = 'String' AND JSONType(text, 'machine') IN ('String', 'Null') AS is_sound,
    us,
    r.socket AS socket,
    toUInt64OrNull(r.port) AS port,
    toUInt64OrNull(r.depth) AS depth,
    toUInt64OrNull(r.limit) AS backlog,
    if(r.machine = '', i.host, r.machine) AS machine,
    ${line_source}
FROM incoming_listen_queue${local} AS i;

CREATE MATERIALIZED VIEW IF NOT EXISTS samples_to_listen_queue${local} ${on_cluster} TO listen_queue${local}
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT
    fromUnixTimestamp64Micro(assumeNotNull(us), 'UTC') AS time,
    machine,
    socket,
    toUInt16(assumeNotNull(s.port)) AS port,
    toUInt32(assumeNotNull(s.depth)) AS depth,
    toUInt32(assumeNotNull(s.backlog)) AS backlog
FROM incoming_samples${local} AS s
WHERE is_sound;

CREATE MATERIALIZED VIEW IF NOT EXISTS samples_to_dead_letters${local} ${on_cluster} TO dead_letters${local}
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
WITH
    ${redacted_text} AS redacted
SELECT
    now64(3) AS time,
    'listen_queue' AS kind,
    source,
    position,
    if(too_long, 'line_too_long', 'invalid_sample') AS reason,
    ${raw_line}
FROM incoming_samples${local}
WHERE NOT is_sound;
