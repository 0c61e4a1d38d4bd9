-- The app's own log, a line of JSON for each request when its work is done: {"request_id", "service_time", "start"} and, if
-- known, "route" and "worker". Each line becomes a row of spans, so that work for requests without an answer is known
-- without OpenTelemetry. Lines as in 105: none is lost, and none can cause an INSERT to fail.
CREATE TABLE IF NOT EXISTS incoming_app_log${local} ${on_cluster}
(
    line String COMMENT 'as the app wrote it, without the newline',
    host LowCardinality(String) COMMENT 'of the machine that has the log; may be empty',
    file LowCardinality(String) COMMENT 'path of the log; may be empty',
    position UInt64 COMMENT 'byte at which the line begins in its file',
    line_bytes UInt32 COMMENT 'length in the file, with the newline; 0: not known',
    redact Bool DEFAULT true COMMENT 'reduce addresses and queries in refused lines'
)
ENGINE = Null;

-- A line as a record. An app may write numbers as numbers or as text.
CREATE TABLE IF NOT EXISTS incoming_work${local} ${on_cluster}
(
    text String COMMENT 'the line as UTF-8; its beginning where it is too long',
    too_long Bool COMMENT '1 MiB or more',
    r Tuple(request_id String, service_time String, start String, route String, worker String),
    source LowCardinality(String),
    position UInt64,
    redact Bool
)
ENGINE = Null;

CREATE MATERIALIZED VIEW IF NOT EXISTS incoming_app_log_to_work${local} ${on_cluster} TO incoming_work${local}
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
WITH
    length(i.line) - endsWith(i.line, '\n') >= 1048576 AS too_long,
    toValidUTF8(if(too_long, left(i.line, 10000), i.line)) AS valid,
    if(position(valid, '\xEF\xBF\xBD\xEF\xBF\xBD') > 0, replaceRegexpAll(valid, '\\x{FFFD}+', '\xEF\xBF\xBD'), valid) AS text
SELECT
    text,
    too_long,
    JSONExtract(text, 'Tuple(request_id String, service_time String, start String, route String, worker String)') AS r,
    multiIf(i.host = '', i.file, i.file = '', i.host, concat(i.host, ':', i.file)) AS source,
    i.position AS position,
    i.redact AS redact
FROM incoming_app_log${local} AS i;

-- With its numbers, in microseconds, and why it is refused; empty: it is not.
CREATE TABLE IF NOT EXISTS parsed_work${local} ${on_cluster}
(
    text String,
    r Tuple(request_id String, service_time String, start String, route String, worker String),
    us_service_time Nullable(Int64),
    us_start Nullable(Int64),
    source LowCardinality(String),
    position UInt64,
    redact Bool,
    reason LowCardinality(String)
)
ENGINE = Null;

CREATE MATERIALIZED VIEW IF NOT EXISTS work_to_parsed${local} ${on_cluster} TO parsed_work${local}
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
WITH
    (x) -> x IN ('', '-') AS blank,
    -- A number of JSON may have an exponent.
    (x) -> toFloat64OrNull(if(match(x, '^-?[0-9]+(?:\\.[0-9]+)?(?:[eE][-+]?[0-9]{1,3})?\\z'), x, '')) * 1e6 AS micros,
    (us) -> accurateCastOrNull(trunc(us + 0.5 * sign(us)), 'Int64') AS rounded
SELECT
    text, r, source, position, redact,
    rounded(micros(r.service_time)) AS us_service_time,
    rounded(micros(r.start)) AS us_start,
    multiIf(
        too_long, 'line_too_long',
        match(text, '^[ \\t\\r\\n]*\\z'), 'empty_line',
        NOT isValidJSON(text), 'invalid_json',
        NOT match(text, '^[ \\t]*\\{'), 'not_an_object',
        blank(r.request_id), 'missing_request_id',
        blank(r.service_time), 'missing_service_time',
        ifNull(us_service_time NOT BETWEEN 0 AND 999999999999999, true), 'invalid_service_time',
        blank(r.start), 'missing_start',
        ifNull(us_start NOT BETWEEN 1000000000000000 AND 9000000000000000 - us_service_time, true), 'invalid_start',
        '') AS reason
FROM incoming_work${local};

CREATE MATERIALIZED VIEW IF NOT EXISTS parsed_work_to_spans${local} ${on_cluster} TO spans${local}
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
WITH
    (us) -> fromUnixTimestamp64Nano(us * 1000, 'UTC') AS instant
SELECT
    instant(assumeNotNull(us_start)) AS start,
    instant(assumeNotNull(us_start + us_service_time)) AS end,
    -- A span of the app itself has an id; here it is made of what the line has.
    lower(hex(sipHash64(r.request_id, r.worker, us_start, us_service_time))) AS span_id,
    r.request_id AS request_id,
    'app log' AS name,
    'server' AS kind,
    if(r.route = '-', '', r.route) AS route,
    if(r.worker = '-', '', r.worker) AS worker,
    reinterpret(assumeNotNull(us_service_time), 'Decimal(18, 6)') AS service_time
FROM parsed_work${local}
WHERE reason = '';

CREATE MATERIALIZED VIEW IF NOT EXISTS parsed_work_to_dead_letters${local} ${on_cluster} TO dead_letters${local}
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
WITH
    replaceRegexpAll(replaceRegexpAll(text, '\\?(?:[^"\\\\ \\t\\r\\n]|\\\\.)*', '?'),
        '\\b([0-9]{1,3}\\.[0-9]{1,3}\\.[0-9]{1,3})\\.[0-9]{1,3}\\b', '\\1.0') AS redacted
SELECT
    now64(3) AS time,
    'app_log' AS kind,
    source,
    position,
    reason,
    leftUTF8(replaceRegexpOne(if(redact, redacted, text), '[\\r\\n]+\\z', ''), if(reason = 'line_too_long', 200, 10000)) AS raw
FROM parsed_work${local}
WHERE reason != '';
