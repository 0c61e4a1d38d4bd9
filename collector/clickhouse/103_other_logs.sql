-- Logs of other proxies and of app servers: the wait in a proxy's own queue, what a log's times are seen from, and the
-- step in which its instants count.
ALTER TABLE requests${local} ${on_cluster}
    ADD COLUMN IF NOT EXISTS proxy_queue Decimal64(6) CODEC(T64('bit'), ZSTD(1))
        COMMENT 's in the proxy''s own queue, for a place at the backend; 0 where it has none' AFTER proxy_start,
    ADD COLUMN IF NOT EXISTS vantage LowCardinality(String)
        COMMENT 'what the times are seen from: proxy, whole (whole requests only) or app; empty: proxy' AFTER app_garbled,
    ADD COLUMN IF NOT EXISTS time_step Float64 DEFAULT 0.001 CODEC(ZSTD(1))
        COMMENT 's, the step in which time counts' AFTER vantage,
    MODIFY COLUMN queueing_by_duration Nullable(Float64)
        ALIAS if(vantage = 'app', NULL, toFloat64(proxy_queue) + header - service_time)
        COMMENT 's; needs no clock',
    MODIFY COLUMN transfer Nullable(Float64)
        ALIAS ifNull(response, toFloat64(request_time) - upload - toFloat64(proxy_queue) - retries) - header,
    MODIFY COLUMN send Float64
        ALIAS toFloat64(request_time) - upload - toFloat64(proxy_queue) - retries
            - if(attempts > 0, ifNull(response, toFloat64(request_time) - upload - toFloat64(proxy_queue) - retries), 0);

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
        *, record, toFloat64(request_time) AS response_time,
        upstream, attempts, start, retries, connect, header, response, answered, service_time, upload, app_start, half_tick,
        queueing_by_stamp, queueing_by_duration, transfer, send
    FROM requests${local} FINAL
) AS r
GLOBAL LEFT JOIN
(
    SELECT hour AS clock_hour, proxy AS clock_proxy, upstream AS clock_upstream, toNullable(offset) AS offset_seen
    FROM clock_offsets
) AS clock ON toStartOfHour(r.time) = clock_hour AND r.proxy = clock_proxy AND r.upstream = clock_upstream;

-- The rollup of the minutes that are due, as in 101. Everything about a minute is computed in this one place.
CREATE OR REPLACE VIEW rollup_due${local} ${on_cluster} SQL SECURITY INVOKER AS
WITH
    (SELECT groupArray(minute) FROM minutes_due${local}) AS due,
    (x) -> if(x < 1e-4, -80, toInt16(floor(log10(x) * 20 + 1e-9))) AS bucket_of
SELECT * REPLACE (now64(3, 'UTC') AS computed)
FROM (SELECT arrayJoin(due) AS minute) AS due_minutes
LEFT JOIN
(
    SELECT
        minute,
        service,
        route,
        proxy,
        upstream,
        now64(3, 'UTC') AS computed,
        countIf(counted) AS requests,
        countIf(status = 101) AS upgraded,
        countIf(status BETWEEN 500 AND 599) AS errors,
        countIf(status = 504) AS timeouts,
        countIf(status = 499) AS abandoned,
        countIf(counted AND answered AND queueing IS NULL AND service_time IS NULL) AS unmeasured,
        -- A request that did not wait is up to half a tick below zero: the stamp's resolution, and no fault.
        countIf(counted AND queueing < -half_tick - 1e-7) AS negative,
        sumIf(response_time, counted) AS response_seconds,
        sumIf(waited, counted) AS queueing_seconds,
        sumIf(worked, counted) AS service_seconds,
        sumIf(between, counted) AS network_seconds,
        sumIf(upload, counted) AS upload_seconds,
        sumIf(retries, counted) AS retries_seconds,
        sumIf(transferred, counted) AS transfer_seconds,
        sumIf(send, counted) AS send_seconds,
        sumIf(unknown, counted) AS unattributed_seconds,
        quantilesDDStateIf(0.01, 0.5, 0.9, 0.99, 0.999)(response_time * 1e6, counted) AS response_quantiles,
        quantilesDDStateIf(0.01, 0.5, 0.9, 0.99, 0.999)(waited * 1e6, counted AND queueing IS NOT NULL) AS queueing_quantiles,
        quantilesDDStateIf(0.01, 0.5, 0.9, 0.99, 0.999)(worked * 1e6, counted AND service_time IS NOT NULL) AS service_quantiles,
        sumMapIf(map(bucket, toUInt64(1)), counted) AS response_histogram,
        sumMapIf(map(bucket_of(waited), toUInt64(1)), counted AND queueing IS NOT NULL) AS queueing_histogram,
        sumMapIf(map(bucket_of(worked), toUInt64(1)), counted AND service_time IS NOT NULL) AS service_histogram,
        sumMapIf(map(bucket, waited), counted) AS queueing_by_response,
        sumMapIf(map(bucket, worked), counted) AS service_by_response,
        sumMapIf(map(bucket, between), counted) AS network_by_response,
        sumMapIf(map(bucket, upload), counted) AS upload_by_response,
        sumMapIf(map(bucket, retries), counted) AS retries_by_response,
        sumMapIf(map(bucket, transferred), counted) AS transfer_by_response,
        sumMapIf(map(bucket, send), counted) AS send_by_response,
        sumMapIf(map(bucket, unknown), counted) AS unattributed_by_response,
        uniqExactStateIf(worker, counted AND worker != '') AS workers
    FROM
    (
        SELECT
            toStartOfMinute(time) AS minute,
            service, route, proxy, upstream, worker, status, answered, service_time, upload, retries, send, half_tick,
            status != 101 AS counted,
            response_time,
            queueing_delay AS queueing,
            -- Where the wait is unknown, it was the proxy's own queue and the connection at least; so the seconds add up.
            ifNull(queueing_delay, toFloat64(proxy_queue) + ifNull(connect, 0)) AS waited,
            ifNull(service_time, 0) AS worked,
            ifNull(network, 0) AS between,
            ifNull(transfer, 0) AS transferred,
            unattributed AS unknown,
            bucket_of(response_time) AS bucket
        FROM requests_split${local}
        WHERE toStartOfMinute(time) IN (SELECT arrayJoin(due))
            AND time >= arrayMin(due) AND time < arrayMax(due) + INTERVAL 1 MINUTE
    )
    GROUP BY minute, service, route, proxy, upstream
) AS results USING (minute)
SETTINGS join_use_nulls = 0, do_not_merge_across_partitions_select_final = 1;
