-- How a line of an app's own log becomes a row of spans, so that work for requests without an answer is known without
-- OpenTelemetry, or a row of dead_letters.

-- A line as a record. An app may write numbers as numbers or as text.
CREATE TABLE IF NOT EXISTS incoming_work${local} ${on_cluster}
(
    text String COMMENT 'the line as UTF-8; its beginning where it is too long',
    too_long Bool COMMENT '1 MiB or more',
    r ${work},
    source LowCardinality(String),
    position UInt64,
    redact Bool
)
ENGINE = Null;

CREATE MATERIALIZED VIEW IF NOT EXISTS incoming_app_log_to_work${local} ${on_cluster} TO incoming_work${local}
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
WITH
    ${line_text},
    ${log_name}
SELECT
    text,
    too_long,
    JSONExtract(text, '${work}') AS r,
    ${line_source}
FROM incoming_app_log${local} AS i;

-- With its numbers, in microseconds, and why it is refused; empty: it is not.
CREATE TABLE IF NOT EXISTS parsed_work${local} ${on_cluster}
(
    text String,
    r ${work},
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
    ${redacted_text} AS redacted
SELECT
    now64(3) AS time,
    'app_log' AS kind,
    source,
    position,
    reason,
    ${raw_line}
FROM parsed_work${local}
WHERE reason != '';
