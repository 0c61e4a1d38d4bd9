-- How a minute becomes rows of rollup_minute. Read from the end: a refresh every 15 s selects from minutes_due and writes
-- into rollup_results; from there one view fills rollup_minute and another notes in touched_minutes that it was done.
--
-- A minute is due as long as a row of it arrived later than 60 s before its rollup was last begun. Why 60 s: a row is
-- stamped when its block is taken and can be read a little later, once it is written. A refresh in between sees the
-- stamp or not, but never the row. Without the 60 s it would tick the minute off; with them the minute stays due until
-- a refresh begun a minute after the row's arrival has read it. The same 60 s cover clocks of two machines that differ,
-- and, on a cluster, replicas that lag a little (see cluster/065).

-- What a refresh computes goes through here: a table that stores nothing.
CREATE TABLE IF NOT EXISTS rollup_results${local} ${on_cluster} AS rollup_minute${local} ENGINE = Null;

CREATE MATERIALIZED VIEW IF NOT EXISTS rollup_results_to_rollup_minute${local} ${on_cluster} TO rollup_minute${local}
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT * FROM rollup_results${local} WHERE requests + upgraded > 0;

-- A minute without any row left (expired, or dropped by hand) has a result too, an empty one, or it would be due for ever.
CREATE MATERIALIZED VIEW IF NOT EXISTS rollup_results_to_touched_minutes${local} ${on_cluster} TO touched_minutes${local}
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT minute, toDateTime64(0, 3, 'UTC') AS touched, max(computed) AS computed, 0 AS arrived
FROM rollup_results${local}
GROUP BY minute;

-- A minute whose requests have expired keeps the rollup it has, even if one of them is delivered again: init --keep puts
-- the day in the place of 1970.
CREATE VIEW IF NOT EXISTS minutes_known${local} ${on_cluster} SQL SECURITY INVOKER AS
SELECT minute, max(touched) AS touched, max(computed) AS computed, sum(arrived) AS arrived
FROM touched_minutes${local}
WHERE minute > toDateTime(0)
GROUP BY minute;

-- Those that waited longest come first, and not more of them at a time than make two million rows: however much arrives
-- at once, a refresh takes a bounded time, and the next one goes on.
CREATE VIEW IF NOT EXISTS minutes_due${local} ${on_cluster} SQL SECURITY INVOKER AS
SELECT minute, touched, computed
FROM
(
    SELECT
        minute, touched, computed, arrived,
        sum(arrived) OVER (ORDER BY computed, minute ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS running
    FROM minutes_known${local}
    WHERE touched > computed - INTERVAL 60 SECOND
)
WHERE running - arrived < 2000000;

-- The rollup of the minutes that are due. Everything about a minute is computed in this one place. The list of minutes is
-- a scalar because it must be the same list wherever it is read: what is ticked off is what was computed.
CREATE VIEW IF NOT EXISTS rollup_due${local} ${on_cluster} SQL SECURITY INVOKER AS
WITH
    (SELECT groupArray(minute) FROM minutes_due${local}) AS due,
    (x) -> if(x < 1e-4, -80, toInt16(floor(log10(x) * 20))) AS bucket_of
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
        countIf(counted AND queueing < 0) AS negative,
        sumIf(response_time, counted) AS response_seconds,
        sumIf(waited, counted) AS queueing_seconds,
        sumIf(worked, counted) AS service_seconds,
        sumIf(upload, counted) AS upload_seconds,
        sumIf(retries, counted) AS retries_seconds,
        sumIf(transferred, counted) AS transfer_seconds,
        sumIf(send, counted) AS send_seconds,
        sumIf(unattributed, counted) AS unattributed_seconds,
        quantilesDDStateIf(0.01, 0.5, 0.9, 0.99, 0.999)(response_time * 1e6, counted) AS response_quantiles,
        quantilesDDStateIf(0.01, 0.5, 0.9, 0.99, 0.999)(waited * 1e6, counted AND queueing IS NOT NULL) AS queueing_quantiles,
        quantilesDDStateIf(0.01, 0.5, 0.9, 0.99, 0.999)(worked * 1e6, counted AND service_time IS NOT NULL) AS service_quantiles,
        sumMapIf(map(bucket, toUInt64(1)), counted) AS response_histogram,
        sumMapIf(map(bucket_of(waited), toUInt64(1)), counted AND queueing IS NOT NULL) AS queueing_histogram,
        sumMapIf(map(bucket_of(worked), toUInt64(1)), counted AND service_time IS NOT NULL) AS service_histogram,
        sumMapIf(map(bucket, waited), counted) AS queueing_by_response,
        sumMapIf(map(bucket, worked), counted) AS service_by_response,
        sumMapIf(map(bucket, upload), counted) AS upload_by_response,
        sumMapIf(map(bucket, retries), counted) AS retries_by_response,
        sumMapIf(map(bucket, transferred), counted) AS transfer_by_response,
        sumMapIf(map(bucket, send), counted) AS send_by_response,
        sumMapIf(map(bucket, unattributed), counted) AS unattributed_by_response,
        uniqExactStateIf(worker, counted AND worker != '') AS workers,
        minOrNullIf(start_seen - connect_time, clocked) AS clock_upper,
        maxOrNullIf(start_seen + worked - header, clocked) AS clock_lower,
        minOrNullIf(connect_time, clocked) AS clock_connect,
        countIf(clocked) AS clock_requests,
        countIf(clocked AND fine) AS clock_fine
    FROM
    (
        SELECT
            toStartOfMinute(time) AS minute,
            service, route, proxy, upstream, worker, status, answered, header, service_time, upload, retries, send,
            status != 101 AS counted,
            toFloat64(request_time) AS response_time,
            queueing_delay AS queueing,
            -- A request that nobody measured waited at least for its connection; so the seconds add up.
            coalesce(queueing_delay, connect, 0) AS waited,
            ifNull(service_time, 0) AS worked,
            ifNull(transfer, 0) AS transferred,
            unattributed,
            bucket_of(response_time) AS bucket,
            ifNull(connect, 0) AS connect_time,
            ifNull(app_start, 0) AS start_seen,
            -- The first attempt only: every attempt before adds nginx's rounding once more.
            counted AND attempts = 1 AND app_start IS NOT NULL AND service_time IS NOT NULL AS clocked,
            toUnixTimestamp64Micro(assumeNotNull(proxy_start)) % 1000 != 0
                OR toInt64(round(ifNull(header, 0) * 1e6)) % 1000 != 0 AS fine
        FROM requests${local} FINAL
        WHERE toStartOfMinute(time) IN (SELECT arrayJoin(due))
            AND time >= arrayMin(due) AND time < arrayMax(due) + INTERVAL 1 MINUTE
    )
    GROUP BY minute, service, route, proxy, upstream
) AS results USING (minute)
SETTINGS join_use_nulls = 0, do_not_merge_across_partitions_select_final = 1;

CREATE MATERIALIZED VIEW IF NOT EXISTS rollup_refresh${local} ${on_cluster}
REFRESH EVERY 15 SECOND APPEND TO rollup_results${local}
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT * FROM rollup_due${local};

-- Requests that were there before the view that notes them: ordinary views see only what comes after them.
INSERT INTO touched_minutes${local} (minute, touched, arrived)
SELECT toStartOfMinute(time) AS minute, now64(3) AS touched, count() AS arrived
FROM requests${local}
WHERE minute NOT IN (SELECT minute FROM touched_minutes${local})
GROUP BY minute;
