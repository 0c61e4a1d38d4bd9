-- Queueing delay by the stamp first and by durations second, as sojourn.model.components has it.

-- The views over these tables are made again below.
DROP VIEW IF EXISTS rollup_refresh${local} ${on_cluster} SYNC;
DROP VIEW IF EXISTS rollup_results_to_rollup_minute${local} ${on_cluster} SYNC;
DROP VIEW IF EXISTS rollup_results_to_touched_minutes${local} ${on_cluster} SYNC;
DROP VIEW IF EXISTS rollup_due${local} ${on_cluster} SYNC;

ALTER TABLE rollup_minute${local} ${on_cluster}
    DROP COLUMN IF EXISTS clock_upper,
    DROP COLUMN IF EXISTS clock_lower,
    DROP COLUMN IF EXISTS clock_connect,
    DROP COLUMN IF EXISTS clock_requests,
    DROP COLUMN IF EXISTS clock_fine,
    MODIFY COLUMN queueing_seconds COMMENT 'queueing delay: by stamp first, by durations second; the connect time where both are unknown',
    ADD COLUMN IF NOT EXISTS network_seconds Float64 CODEC(ZSTD(1)) COMMENT 'between the clocks of app and nginx, signed' AFTER service_seconds,
    ADD COLUMN IF NOT EXISTS network_by_response Map(Int16, Float64) CODEC(ZSTD(1)) AFTER service_by_response;

DROP TABLE IF EXISTS rollup_results${local} ${on_cluster} SYNC;
CREATE TABLE IF NOT EXISTS rollup_results${local} ${on_cluster} AS rollup_minute${local} ENGINE = Null;

-- queueing_delay and unattributed need the clock offset, which is not of one row: they are in the view requests_split.
ALTER TABLE requests${local} ${on_cluster}
    DROP COLUMN IF EXISTS unattributed,
    DROP COLUMN IF EXISTS queueing_delay,
    ADD COLUMN IF NOT EXISTS half_tick Float64
        ALIAS if(ifNull(toUnixTimestamp64Micro(proxy_start) % 1000, 1) = 0, 0.0005, 0)
        COMMENT 's by which a stamp cut to milliseconds is too early on average',
    MODIFY COLUMN queueing_by_stamp Nullable(Float64) ALIAS app_start - half_tick - retries
        COMMENT 's; the clock offset between app and proxy is still in it, see requests_split',
    MODIFY COLUMN queueing_by_duration Nullable(Float64) ALIAS header - service_time
        COMMENT 's; needs no clock';

-- How far each app's clock stands from nginx's, hour by hour; the formula is that of sojourn.clocks. Requests answered
-- at the first attempt only, and what the headers say: spans are not read.
CREATE OR REPLACE VIEW clock_offsets ${on_cluster} SQL SECURITY INVOKER AS
WITH
    if(fine_seen = 0, 1e-3, 0) AS tick,
    lower_seen - tick AS likely,
    lower_seen - 2 * tick AS lower_bound,
    upper_seen - likely AS gap,
    -- A gap a network can explain is divided evenly; a larger one is a queue that was never empty.
    if(gap <= connecting + 0.010, gap / 2, (connecting + tick) / 2) AS one_way,
    least(likely + one_way, upper_seen) AS offset_seen
SELECT
    hour,
    proxy,
    upstream,
    offset_seen AS offset,
    greatest(upper_seen - offset_seen, offset_seen - lower_bound, tick) AS uncertainty,
    lower_bound AS lower,
    upper_seen AS upper,
    n AS requests
FROM
(
    SELECT
        hour, proxy, upstream, toFloat64(min(b.upper)) AS upper_seen, toFloat64(max(b.lower)) AS lower_seen,
        toFloat64(min(b.round_trip)) AS connecting, toUInt8(max(b.fine)) AS fine_seen, toUInt64(sum(b.requests)) AS n
    FROM clock_bounds AS b
    GROUP BY hour, proxy, upstream
);

-- Every request once, with its split: the columns of requests, and the components that need the clock offset of the hour.
-- A stamp that lies after the response it belongs to (impossible) is not used. Spans are not read: the time of a request
-- without an answer is unattributed.
CREATE OR REPLACE VIEW requests_split${local} ${on_cluster} SQL SECURITY INVOKER AS
WITH
    ifNull(connect, 0) AS connecting,
    ifNull(response, response_time - upload - retries) AS attempt,
    queueing_by_stamp - clock_offset AS by_stamp,
    answered AND service_time IS NOT NULL AND queueing_delay IS NOT NULL AS known
SELECT
    * EXCEPT (offset_seen, clock_hour, clock_proxy, clock_upstream),
    ifNull(offset_seen, 0) AS clock_offset,
    ifNull(answered AND by_stamp > header + 0.1 AND NOT ifNull(stamp = 'inbound' AND proxy_start = request_start, 0), 0) AS impossible,
    multiIf(
        NOT impossible AND by_stamp IS NOT NULL, 'stamp',
        queueing_by_duration IS NOT NULL, 'duration',
        'none') AS queue_source,
    if(impossible, queueing_by_duration, ifNull(by_stamp, queueing_by_duration)) AS queueing_delay,
    queueing_delay - connecting AS queue,
    if(known, header - queueing_delay - service_time, NULL) AS network,
    multiIf(
        attempts = 0, 0,
        NOT answered, attempt - connecting,
        known, 0,
        header - ifNull(queueing_delay, connecting) - ifNull(service_time, 0)) AS unattributed
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

-- The rollup of the minutes that are due, as in 070. Everything about a minute is computed in this one place.
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
            -- Where the wait is unknown, it was the connection at least; so the seconds add up.
            coalesce(queueing_delay, connect, 0) AS waited,
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

CREATE MATERIALIZED VIEW IF NOT EXISTS rollup_results_to_rollup_minute${local} ${on_cluster} TO rollup_minute${local}
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT * FROM rollup_results${local} WHERE requests + upgraded > 0;

CREATE MATERIALIZED VIEW IF NOT EXISTS rollup_results_to_touched_minutes${local} ${on_cluster} TO touched_minutes${local}
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT minute, toDateTime64(0, 3, 'UTC') AS touched, max(computed) AS computed, 0 AS arrived
FROM rollup_results${local}
GROUP BY minute;

CREATE MATERIALIZED VIEW IF NOT EXISTS rollup_refresh${local} ${on_cluster}
REFRESH EVERY 15 SECOND APPEND TO rollup_results${local}
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT * FROM rollup_due${local};

-- Minutes that were computed before: their requests are computed anew, as far as they are still there.
INSERT INTO touched_minutes${local} (minute, touched, arrived)
SELECT toStartOfMinute(time) AS minute, now64(3) AS touched, count() AS arrived
FROM requests${local}
GROUP BY minute;
