-- How a line of spans becomes rows of spans, or a row of dead_letters.

-- A line as a record. Only the fields of its form have values. A value of an attribute is a map of one entry: the type of the
-- value, such as stringValue, and its text.
CREATE TABLE IF NOT EXISTS incoming_span_lines${local} ${on_cluster}
(
    text String COMMENT 'the line as UTF-8; its beginning where it is too long',
    too_long Bool COMMENT '1 MiB or more',
    r ${span_line},
    source LowCardinality(String),
    position UInt64,
    redact Bool
)
ENGINE = Null;

CREATE MATERIALIZED VIEW IF NOT EXISTS incoming_spans_to_lines${local} ${on_cluster} TO incoming_span_lines${local}
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
WITH
    ${line_text},
    ${log_name}
SELECT
    text,
    too_long,
    -- An array would be taken for a record whose fields have no names.
    JSONExtract(if(match(text, '^[ \\t]*\\{'), text, ''), '${span_line}') AS r,
    ${line_source}
FROM incoming_spans${local} AS i;

-- Spans with a sound start and end, of either form: one row each.
CREATE TABLE IF NOT EXISTS incoming_span_values${local} ${on_cluster}
(
    start Int64 COMMENT 'unix ns, as all instants here',
    end Int64,
    trace_id String,
    span_id String,
    parent_span_id String,
    name LowCardinality(String),
    kind LowCardinality(String),
    status Tuple(code LowCardinality(String), message String),
    keys Array(String) COMMENT 'of the attributes',
    texts Array(String) COMMENT 'their values; a list is JSON',
    no_numbers Array(String) COMMENT 'keys of durations whose values are not numbers',
    resource_keys Array(String),
    resource_texts Array(String),
    event_times Array(Nullable(Int64)),
    event_names Array(String),
    redact Bool
)
ENGINE = Null;

CREATE MATERIALIZED VIEW IF NOT EXISTS span_lines_to_values_of_exports${local} ${on_cluster} TO incoming_span_values${local}
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
WITH
    ${too_large},
    -- Of attributes with one key the last.
    (list) -> if(arrayUniq(list.key) = length(list), list, arrayReverse(arrayFilter((a, n) -> n = 1, arrayReverse(list),
        arrayEnumerateUniq(arrayReverse(list.key))))) AS last_of_each,
    last_of_each(span.attributes) AS attributes,
    (a) -> mapKeys(a.value)[1] AS type_of,
    -- A list as JSON, with the lists in it. In a deeper one each value remains an object with its type.
    (json) -> arrayMap(v -> JSONExtractKeysAndValuesRaw(v)[1], JSONExtractArrayRaw(json, 'values')) AS typed_values,
    (list) -> concat('[', arrayStringConcat(list, ','), ']') AS in_brackets,
    (v) -> if(v.2 = '', 'null', v.2) AS json_of,
    (v) -> if(v.1 = 'arrayValue', in_brackets(arrayMap(w -> json_of(w), typed_values(v.2))), json_of(v)) AS element_of,
    (json) -> in_brackets(arrayMap(v -> element_of(v), typed_values(json))) AS list_of,
    (a) -> if(type_of(a) = 'arrayValue', list_of(mapValues(a.value)[1]), mapValues(a.value)[1]) AS text_of
SELECT
    assumeNotNull(span.startTimeUnixNano) AS start,
    assumeNotNull(span.endTimeUnixNano) AS end,
    span.traceId AS trace_id,
    span.spanId AS span_id,
    span.parentSpanId AS parent_span_id,
    span.name AS name,
    span.kind AS kind,
    span.status AS status,
    attributes.key AS keys,
    arrayMap(a -> text_of(a), attributes) AS texts,
    arrayMap(a -> a.key, arrayFilter(
        a -> a.key IN ('queueing.delay', 'queueing.delay.raw', 'queueing.clock_offset', 'queueing.service_time')
            AND type_of(a) NOT IN ('doubleValue', 'intValue'), attributes)) AS no_numbers,
    resource_keys,
    resource_texts,
    span.events.timeUnixNano AS event_times,
    span.events.name AS event_names,
    redact
FROM
(
    SELECT arrayJoin(scope.spans) AS span, resource_keys, resource_texts, redact
    FROM
    (
        SELECT arrayJoin(resource.scopeSpans) AS scope, resource_keys, resource_texts, redact
        FROM
        (
            SELECT
                arrayJoin(r.resourceSpans) AS resource,
                last_of_each(resource.resource.attributes) AS facts,
                facts.key AS resource_keys,
                arrayMap(a -> text_of(a), facts) AS resource_texts,
                redact
            FROM incoming_span_lines${local}
            WHERE NOT too_large
        )
    )
)
WHERE span.startTimeUnixNano > 0 AND span.endTimeUnixNano >= span.startTimeUnixNano;

CREATE MATERIALIZED VIEW IF NOT EXISTS span_lines_to_values_of_events${local} ${on_cluster} TO incoming_span_values${local}
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
WITH
    ${nanoseconds},
    nanoseconds(r.start_time_unix_nano) AS since,
    nanoseconds(r.end_time_unix_nano) AS until
SELECT
    assumeNotNull(since) AS start,
    assumeNotNull(until) AS end,
    r.trace_id AS trace_id,
    r.span_id AS span_id,
    r.parent_span_id AS parent_span_id,
    r.name AS name,
    r.kind AS kind,
    r.status AS status,
    mapKeys(r.attributes) AS keys,
    mapValues(r.attributes) AS texts,
    if(multiSearchAny(text, ['"queueing.delay":"', '"queueing.delay.raw":"', '"queueing.clock_offset":"', '"queueing.service_time":"']),
        arrayFilter(k -> JSONType(text, 'attributes', k) = 'String',
            ['queueing.delay', 'queueing.delay.raw', 'queueing.clock_offset', 'queueing.service_time']), []) AS no_numbers,
    mapKeys(r.resources) AS resource_keys,
    mapValues(r.resources) AS resource_texts,
    arrayMap(e -> nanoseconds(e.time_unix_nano), r.events) AS event_times,
    r.events.name AS event_names,
    redact
FROM incoming_span_lines${local}
WHERE empty(r.resourceSpans) AND since > 0 AND until >= since;

CREATE MATERIALIZED VIEW IF NOT EXISTS span_values_to_spans${local} ${on_cluster} TO spans${local}
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
WITH
    (key) -> v.texts[indexOf(v.keys, key)] AS value,
    (x) -> ifNull(abs(toFloat64OrNull(x)) < 1e9, false) AS is_duration,
    -- s, in whole microseconds, so that sums are exact.
    (x) -> reinterpret(ifNull(accurateCastOrNull(round(toFloat64OrNull(x) * 1e6), 'Int64'), 0), 'Decimal(18, 6)') AS rounded,
    (key) -> if(is_duration(value(key)) AND NOT has(v.no_numbers, key), rounded(value(key)), NULL) AS seconds,
    (x) -> if(match(x, '^0*[1-9][0-9]{0,2}\\z'), toUInt16OrZero(x), 0) AS status_number,
    -- A header is a list of its values.
    value('http.request.header.x-request-id') AS ids,
    multiIf(
        NOT startsWith(ids, '['), ids,
        match(ids, '^\\["[^"\\\\]*"\\]\\z'), substring(ids, 3, length(ids) - 4),
        JSONType(ids) = 'Array', JSONExtract(ids, 1, 'String'),
        ids) AS first_id,

    -- Attributes without a column, redacted: OpenTelemetry's names of today and of before.
    (k) -> k IN ('url.query', 'user_agent.original', 'http.user_agent', 'http.request.header.authorization',
        'http.request.header.cookie', 'http.request.header.proxy-authorization', 'http.response.header.set-cookie') AS is_private,
    (k) -> k IN ('url.full', 'url.path', 'url.original', 'http.url', 'http.target') AS is_uri,
    (k) -> k IN ('client.address', 'network.peer.address', 'http.client_ip', 'net.peer.ip', 'net.sock.peer.addr', 'source.address') AS is_address,
    ${network_of},
    arrayFilter(p -> p.1 NOT IN ('http.request.header.x-request-id', 'http.route', 'queueing.worker', 'queueing.status')
        AND NOT (p.1 = 'http.response.status_code' AND status_number(p.2) > 0)
        AND NOT (p.1 IN ('queueing.delay', 'queueing.delay.raw', 'queueing.clock_offset', 'queueing.service_time')
            AND is_duration(p.2) AND NOT has(v.no_numbers, p.1))
        AND NOT (redact AND is_private(p.1)), arrayZip(v.keys, v.texts)) AS kept
SELECT
    fromUnixTimestamp64Nano(v.start, 'UTC') AS start,
    fromUnixTimestamp64Nano(v.end, 'UTC') AS end,
    trace_id,
    span_id,
    parent_span_id,
    first_id AS request_id,
    v.resource_texts[indexOf(v.resource_keys, 'service.name')] AS service,
    name,
    transform(lower(if(startsWith(v.kind, 'SPAN_KIND_'), substring(v.kind, 11), v.kind)),
        ['1', '2', '3', '4', '5', 'internal', 'server', 'client', 'producer', 'consumer'],
        ['internal', 'server', 'client', 'producer', 'consumer', 'internal', 'server', 'client', 'producer', 'consumer'],
        'unspecified') AS kind,
    value('http.route') AS route,
    value('queueing.worker') AS worker,
    status_number(value('http.response.status_code')) AS status_code,
    v.status.code IN ('2', 'STATUS_CODE_ERROR') AS error,
    v.status.message AS status_message,
    seconds('queueing.delay') AS queueing_delay,
    seconds('queueing.delay.raw') AS queueing_delay_raw,
    seconds('queueing.clock_offset') AS clock_offset,
    value('queueing.status') AS queueing_status,
    seconds('queueing.service_time') AS service_time,
    CAST(if(
            redact,
            arrayMap(p -> (p.1, multiIf(is_uri(p.1), replaceRegexpOne(p.2, '(?s)[?#].*', ''), is_address(p.1), network_of(p.2), p.2)), kept),
            kept),
        'Map(LowCardinality(String), String)') AS attributes,
    CAST(arrayFilter(p -> p.1 != 'service.name', arrayZip(v.resource_keys, v.resource_texts)), 'Map(LowCardinality(String), String)') AS resource,
    CAST(arrayMap(e -> (fromUnixTimestamp64Nano(assumeNotNull(e.1), 'UTC'), e.2), arrayFilter(e -> e.1 > 0, arrayZip(event_times, event_names))),
        'Array(Tuple(time DateTime64(9, \'UTC\'), name String))') AS events
FROM incoming_span_values${local} AS v;

-- Refused lines. A line with one unsound span is refused, and its other spans are stored.
CREATE MATERIALIZED VIEW IF NOT EXISTS span_lines_to_dead_letters${local} ${on_cluster} TO dead_letters${local}
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
WITH
    ${too_large},
    arrayFlatten(arrayFlatten(r.resourceSpans.scopeSpans).spans) AS spans,
    ${nanoseconds},
    (since, until) -> ifNull(since > 0 AND until >= since, false) AS sound,
    empty(r.resourceSpans) AND concat(r.trace_id, r.span_id, r.start_time_unix_nano, r.end_time_unix_nano) != '' AS is_event,
    -- An export without any field of a span: it has no span, or only objects without such fields, or is none.
    (list, key) -> arrayAll(e -> JSONType(e) = 'Object' AND JSONType(e, key) IN ('Array', 'Null'), list) AS have_lists,
    JSONExtractArrayRaw(text, 'resourceSpans') AS resources,
    arrayFlatten(arrayMap(e -> JSONExtractArrayRaw(e, 'scopeSpans'), resources)) AS scopes,
    JSONType(text) = 'Object' AND (
        JSONType(text, 'resourceSpans') = 'Array' AND have_lists(resources, 'scopeSpans') AND have_lists(scopes, 'spans')
        OR isValidJSON(text) AND JSONLength(text) = 0) AS is_export,
    multiIf(
        too_long OR too_large, 'line_too_long',
        notEmpty(spans), if(arrayExists(s -> NOT sound(s.startTimeUnixNano, s.endTimeUnixNano), spans), 'invalid_span_time', ''),
        is_event, if(sound(nanoseconds(r.start_time_unix_nano), nanoseconds(r.end_time_unix_nano)), '', 'invalid_span_time'),
        match(text, '^[ \\t\\r\\n]*\\z'), 'empty_line',
        is_export, if(arrayExists(e -> JSONLength(e, 'spans') > 0, scopes), 'invalid_span_time', ''),
        'not_an_export') AS why,
    -- Attributes that are never stored lose their text or list.
    concat('("(?:url\\.query|user_agent\\.original|http\\.user_agent|http\\.request\\.header\\.(?:authorization|cookie|proxy-authorization)',
        '|http\\.response\\.header\\.set-cookie)" ?') AS private_key,
    '("(?:client\\.address|network\\.peer\\.address|http\\.client_ip|net\\.peer\\.ip|net\\.sock\\.peer\\.addr|source\\.address)" ?' AS address_key,
    '(?::|, ?"value" ?: ?\\{ ?"stringValue" ?:) ?")' AS before_text,
    '(?::|, ?"value" ?: ?\\{ ?"arrayValue" ?: ?\\{ ?"values" ?:) ?\\[)' AS before_list,
    replaceRegexpAll(replaceRegexpAll(replaceRegexpAll(${redacted_text},
        concat(address_key, before_text, '((?:[0-9A-Fa-f]{1,4}:){1,3})[0-9A-Fa-f:.]+'), '\\1\\2:'),
        concat(private_key, before_text, '(?:[^"\\\\]|\\\\.)*'), '\\1'),
        concat(private_key, before_list, '(?:[^"\\]]|"(?:[^"\\\\]|\\\\.)*"?)*'), '\\1') AS redacted
SELECT
    now64(3) AS time,
    'spans' AS kind,
    source,
    position,
    why AS reason,
    ${raw_line}
FROM incoming_span_lines${local}
WHERE reason != '';
