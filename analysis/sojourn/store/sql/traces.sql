-- Spans of the traces whose first span began in a window, in the columns of sojourn.sources.traces.
WITH
    fromUnixTimestamp64Micro({since:Int64}, 'UTC') AS since,
    fromUnixTimestamp64Micro({until:Int64}, 'UTC') AS until
SELECT
    trace_id,
    span_id,
    parent_span_id,
    toString(service) AS service,
    arrayFirstOrNull(v -> v != '', arrayMap(k -> resource[k], {instance:Array(String)})) AS instance,
    toString(kind) AS kind,
    toString(name) AS name,
    arrayFirstOrNull(v -> v != '', arrayMap(k -> attributes[k], {peer:Array(String)})) AS peer,
    toUnixTimestamp64Nano(s.start) AS start,
    toUnixTimestamp64Nano(s.end) AS end,
    toFloat64(ifNull(s.queueing_delay, s.queueing_delay_raw)) AS queueing_delay,
    toString(worker) AS worker,
    request_id
FROM spans AS s FINAL
WHERE trace_id != '' AND span_id != '' AND s.start >= since
    AND trace_id GLOBAL IN
    (
        -- A clock that is behind may put a span before the first one of its trace.
        SELECT trace_id
        FROM spans AS w
        WHERE w.start >= since - INTERVAL 1 HOUR AND w.start < until + INTERVAL 1 HOUR
        GROUP BY trace_id
        HAVING min(w.start) >= since AND min(w.start) < until
    )
LIMIT {limit:UInt64}
