-- nginx begins most traces, and the trace id is then the request id: such a row has no second copy of it in trace_id, but
-- its span id. trace is the trace id of every row, and empty for a row that has none.
ALTER TABLE requests${local} ${on_cluster}
    ADD COLUMN IF NOT EXISTS trace String ALIAS if(trace_id = '' AND span_id != '', request_id, trace_id)
        COMMENT 'trace id' AFTER trace_id,
    COMMENT COLUMN IF EXISTS trace_id 'trace id where it is not the request id; see trace';

-- Every request once, with its split: the columns of requests, and the components that need the clock offset of the hour.
-- A stamp that lies after the response it belongs to (impossible) is not used. Spans are not read: the time of a request
-- without an answer is unattributed.
CREATE OR REPLACE VIEW requests_split${local} ${on_cluster} SQL SECURITY INVOKER AS
WITH
    ifNull(connect, 0) AS connecting,
    toFloat64(proxy_queue) AS in_proxy,
    ifNull(response, response_time - upload - in_proxy - retries) AS attempt,
    queueing_by_stamp - clock_offset AS by_stamp,
    answered AND service_time IS NOT NULL AND queueing_delay IS NOT NULL AS known
SELECT
    * EXCEPT (offset_seen, clock_hour, clock_proxy, clock_upstream),
    ifNull(offset_seen, 0) AS clock_offset,
    ifNull(answered AND by_stamp > in_proxy + header + 0.1 AND NOT ifNull(stamp = 'inbound' AND proxy_start = request_start, 0), 0) AS impossible,
    multiIf(
        NOT impossible AND by_stamp IS NOT NULL, 'stamp',
        queueing_by_duration IS NOT NULL, 'duration',
        'none') AS queue_source,
    if(impossible, queueing_by_duration, ifNull(by_stamp, queueing_by_duration)) AS queueing_delay,
    queueing_delay - in_proxy - connecting AS queue,
    if(known, in_proxy + header - queueing_delay - service_time, NULL) AS network,
    multiIf(
        attempts = 0, 0,
        NOT answered, attempt - connecting,
        known, 0,
        header - ifNull(queueing_delay - in_proxy, connecting) - ifNull(service_time, 0)) AS unattributed
FROM
(
    SELECT
        * REPLACE (trace AS trace_id), record, toFloat64(request_time) AS response_time,
        upstream, attempts, start, retries, connect, header, response, answered, service_time, upload, app_start, half_tick,
        queueing_by_stamp, queueing_by_duration, transfer, send
    FROM requests${local} FINAL
) AS r
GLOBAL LEFT JOIN
(
    SELECT hour AS clock_hour, proxy AS clock_proxy, upstream AS clock_upstream, toNullable(offset) AS offset_seen
    FROM clock_offsets
) AS clock ON toStartOfHour(r.time) = clock_hour AND r.proxy = clock_proxy AND r.upstream = clock_upstream;
