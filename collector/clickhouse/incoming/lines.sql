-- How a line of a log becomes a row of requests or of dead_letters. Every rule about a line is in this file.

-- A line as a record of texts: JSON is parsed here and nowhere else. A key that the line does not have is an empty text.
CREATE TABLE IF NOT EXISTS incoming_records${local} ${on_cluster}
(
    text String COMMENT 'the line as UTF-8; empty where it is too long for a log line',
    too_long Bool COMMENT '1 MiB or more',
    r ${record},
    source LowCardinality(String),
    position UInt64,
    redact Bool
)
ENGINE = Null;

CREATE MATERIALIZED VIEW IF NOT EXISTS incoming_to_records${local} ${on_cluster} TO incoming_records${local}
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
WITH
    ${line_text},
    ${log_name}
SELECT
    text,
    too_long,
    JSONExtract(text, '${record}') AS r,
    ${line_source}
FROM incoming${local} AS i;

-- A record with its numbers, and why it is refused: reason is the first cause that holds, and empty for a good one.
CREATE TABLE IF NOT EXISTS parsed${local} ${on_cluster}
(
    text String,
    too_long Bool,
    r ${record},
    us_time Nullable(Int64),
    us_request_time Nullable(Int64),
    us_request_start Nullable(Int64),
    us_proxy_start Nullable(Int64),
    us_connect Nullable(Int64),
    us_header Nullable(Int64),
    us_response Nullable(Int64),
    lost_connect Bool,
    lost_header Bool,
    lost_response Bool,
    us_queueing_delay Nullable(Int64),
    us_service_time Nullable(Int64),
    status_number Nullable(Int64),
    source LowCardinality(String),
    position UInt64,
    redact Bool,
    dropped LowCardinality(String),
    reason LowCardinality(String)
)
ENGINE = Null;

CREATE MATERIALIZED VIEW IF NOT EXISTS records_to_parsed${local} ${on_cluster} TO parsed${local}
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
WITH
    ${values_of_a_record},
    -- A duration is shorter than 1e9 s.
    (x) -> rounded(number(x) * 1e6) AS micros,
    (x) -> if(abs(micros(x)) < 1000000000000000, micros(x), NULL) AS duration,
    (us) -> us BETWEEN 1000000000000000 AND 9999999999999999 AS plausible, -- ten digits of seconds: 2001 to 2286

    -- A record that is plainly sound: one attempt or none, and every value as it should be. Nearly every one is, and only
    -- the others are checked for a reason. (bitAnd and not AND, whose short circuit costs more than these comparisons.)
    (x, holds) -> bitOr(blank(x), ifNull(holds, 0)) AS blank_or,
    bitAnd(
        ifNull(bitAnd(bitAnd(plausible(us_time), us_request_time >= 0), bitAnd(plausible(us_time - us_request_time), status_number BETWEEN 0 AND 999)), 0),
        bitAnd(
            bitAnd(blank_or(r.request_start, plausible(sent)), blank_or(r.proxy_start, plausible(built))),
            bitAnd(
                bitAnd(blank_or(r.upstream_connect_time, us_connect >= 0), blank_or(r.upstream_header_time, us_header >= 0)),
                bitAnd(blank_or(r.upstream_response_time, us_response >= 0), NOT is_list(addresses))))) AS sound,

    (x) -> x != '-' AND ifNull(duration(x) < 0, true) AS untimely,
    (x) -> if(is_list(x),
        arrayExists(e -> untimely(e), parts(x)) OR arraySum(e -> toFloat64(ifNull(duration(e), 0)), parts(x)) > 999999999999999,
        NOT blank(x) AND untimely(x)) AS garbled,
    if(blank(addresses), 0, length_of(addresses)) AS addressed,
    (x) -> NOT blank(x) AND addressed > 0 AND length_of(x) != addressed AS differ,
    (x) -> if(sound, false, garbled(x) OR differ(x)) AS lost,
    -- Of a sound record, nothing; a value that is lost leaves the rest of its record.
    (us, x) -> if(sound, false, NOT ifNull(plausible(us), blank(x))) AS lost_start,
    micros(r.request_start) AS sent,
    micros(r.proxy_start) AS built
SELECT
    text, too_long, r, source, position, redact,
    micros(r.time) AS us_time,
    micros(r.request_time) AS us_request_time,
    nullIf(if(lost_start(sent, r.request_start), 0, sent), 0) AS us_request_start,
    nullIf(if(lost_start(built, r.proxy_start), 0, built), 0) AS us_proxy_start,
    duration(r.upstream_connect_time) AS us_connect,
    duration(r.upstream_header_time) AS us_header,
    duration(r.upstream_response_time) AS us_response,
    lost(r.upstream_connect_time) AS lost_connect,
    lost(r.upstream_response_time) AS lost_response,
    lost(r.upstream_header_time) OR lost_response AS lost_header,
    duration(r.queueing_delay) AS us_queueing_delay,
    duration(r.service_time) AS us_service_time,
    toInt64(toFloat64OrNull(if(match(r.status, '^[0-9]{1,9}(?:\\.0+)?\\z'), r.status, ''))) AS status_number,
    multiIf(
        sound, '',
        too_long, 'line_too_long',
        match(text, '^[ \\t\\r\\n]*\\z'), 'empty_line',
        NOT isValidJSON(text), 'invalid_json',
        NOT match(text, '^[ \\t]*\\{'), 'not_an_object',
        blank(r.time), 'missing_time',
        NOT ifNull(plausible(us_time), false), 'invalid_time',
        blank(r.request_time), 'missing_request_time',
        ifNull(us_request_time < 0 OR NOT plausible(us_time - us_request_time), true), 'invalid_request_time',
        blank(r.status), 'missing_status',
        ifNull(status_number NOT BETWEEN 0 AND 999, true), 'invalid_status',
        '') AS reason,
    if(sound, '', arrayStringConcat(arrayFilter(e -> e != '', [
        if(lost_start(sent, r.request_start) OR lost_start(built, r.proxy_start), 'invalid_request_start', ''),
        if(garbled(r.upstream_connect_time) OR garbled(r.upstream_header_time) OR garbled(r.upstream_response_time),
            'invalid_upstream_time', ''),
        if(differ(r.upstream_connect_time) OR differ(r.upstream_header_time) OR differ(r.upstream_response_time),
            'upstream_lists_differ', '')]), ', ')) AS dropped
FROM incoming_records${local};

-- Good records; incoming/rows.sql stores them.
CREATE MATERIALIZED VIEW IF NOT EXISTS parsed_to_rows${local} ${on_cluster} TO incoming_rows${local}
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
WITH
    ${values_of_a_record},
    (us) -> if(us IS NULL, NULL, reinterpret(assumeNotNull(us), 'Decimal(18, 6)')) AS seconds,
    (us) -> if(us IS NULL, NULL, fromUnixTimestamp64Micro(assumeNotNull(us), 'UTC')) AS instant,
    (x) -> if(position(x, '.') > 0, rounded(number(x)), toInt64OrNull(if(match(x, '^-?[0-9]+\\z'), x, ''))) AS whole,

    -- The attempts. A list that is too short (nothing shows which attempt is missing) has the last ones.
    if(r.upstream_addr IS NULL, length_of(r.upstream_response_time), if(blank(addresses), 0, length_of(addresses))) AS n,
    (list) -> if(length(list) >= n, arraySlice(list, length(list) - n + 1), arrayConcat(arrayResize(arraySlice(list, 1, 0), n - length(list)), list)) AS last_ones,
    (x, us, is_lost) -> arrayMap(e -> seconds(e), multiIf(
        is_lost, arrayResize(arraySlice([us], 1, 0), n), n = 1 AND (us IS NOT NULL OR blank(x)), [us],
        last_ones(arrayMap(e -> rounded(number(e) * 1e6), parts(x))))) AS times,
    -- Statuses say which attempt is the backend's: of an internal redirect, all are known or none.
    (list) -> if(has(separators, ' : ') AND length(list) != n, arrayResize(arraySlice(list, 1, 0), n), last_ones(list)) AS of_attempts,
    extractAll(if(r.upstream_addr IS NULL, r.upstream_response_time, addresses), ', | : ') AS separators,

    -- A path with the parts that look like identifiers removed: of few values, never the raw URI.
    splitByChar('#', splitByChar('?', r.uri)[1])[1] AS path,
    -- A cached answer has the app's headers of an earlier request.
    r.upstream_cache_status IN ('HIT', 'STALE', 'UPDATING', 'REVALIDATED') AS from_cache,
    ${network_of}
SELECT
    fromUnixTimestamp64Micro(assumeNotNull(us_time), 'UTC') AS time,
    reinterpret(assumeNotNull(us_request_time), 'Decimal(18, 6)') AS request_time,
    instant(us_request_start) AS request_start,
    instant(ifNull(us_proxy_start, us_request_start)) AS proxy_start,
    toUInt16(assumeNotNull(status_number)) AS status,
    if(r.service = '-', '', r.service) AS service,
    if(blank(r.route), replaceRegexpAll(path, '${route_part}', '/:id'), r.route) AS route,
    if(r.proxy = '-', '', r.proxy) AS proxy,
    if(r.worker = '-' OR from_cache, '', r.worker) AS worker,
    if(r.stamp = '-', '', r.stamp) AS stamp,
    if(r.upstream_cache_status = '-', '', r.upstream_cache_status) AS upstream_cache_status,
    if(r.limit_req_status = '-', '', r.limit_req_status) AS limit_req_status,
    r.method AS method,
    r.protocol AS protocol,
    r.host AS host,
    if(redact AND match(r.uri, '[?#]'), replaceRegexpOne(r.uri, '(?s)[?#].*', ''), r.uri) AS uri,
    if(NOT redact OR endsWith(r.remote_addr, '.0'), r.remote_addr, network_of(r.remote_addr)) AS remote_addr,
    r.request_id AS request_id,
    if(r.trace_id = r.request_id AND r.span_id != '', '', r.trace_id) AS trace_id, -- see the column trace
    r.span_id AS span_id,
    whole(r.bytes_sent) AS bytes_sent,
    whole(r.request_length) AS request_length,
    whole(r.connection) AS connection,
    whole(r.connection_requests) AS connection_requests,
    multiIf(n = 0, [], r.upstream_addr IS NULL, arrayResize([''], n, ''), parts(addresses)) AS attempt_addr,
    arrayMap(e -> if(match(e, '^[0-9]{1,3}\\z'), toUInt16OrZero(e), 0), if(
        n = 1 AND NOT is_list(r.upstream_status), [r.upstream_status], of_attempts(parts(r.upstream_status)))) AS attempt_status,
    times(r.upstream_connect_time, us_connect, lost_connect) AS attempt_connect,
    times(r.upstream_header_time, us_header, lost_header) AS attempt_header,
    times(r.upstream_response_time, us_response, lost_response) AS attempt_response,
    if(n < 2, [], arrayFilter(i -> separators[i] = ' : ', arrayEnumerate(separators))) AS redirects_after,
    -- What the app answered: a delay is signed (its clock less ours), a service time is not.
    if(from_cache, NULL, seconds(us_queueing_delay)) AS app_queueing_delay,
    if(us_service_time >= 0 AND NOT from_cache, seconds(us_service_time), NULL) AS app_service_time,
    NOT from_cache AND ((us_queueing_delay IS NULL AND NOT blank(r.queueing_delay)) OR ifNull(us_service_time < 0, NOT blank(r.service_time))) AS app_garbled,
    dropped,
    source
FROM parsed${local}
WHERE reason = '';

-- The beginning of the line, redacted: what cannot be read cannot be redacted key by key, so queries are removed, and what
-- looks like an address is reduced to its network.
CREATE MATERIALIZED VIEW IF NOT EXISTS parsed_to_dead_letters${local} ${on_cluster} TO dead_letters${local}
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
WITH
    replaceRegexpAll(${redacted_text},
        '("url\\.query" ?[:,] ?(?:"value" ?: ?\\{ ?"stringValue" ?: ?)?")(?:[^"\\\\]|\\\\.)*', '\\1') AS redacted
SELECT
    now64(3) AS time,
    'requests' AS kind,
    source,
    position,
    reason,
    ${raw_line}
FROM parsed${local}
WHERE reason != '';
