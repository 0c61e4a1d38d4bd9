-- The rollup of the minutes that are due. Everything about a minute is computed here. The list of minutes is a scalar because
-- it must be the same list wherever it is read: a minute counts as computed only if it was computed.
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
        countIf(served) AS requests,
        countIf(NOT served) AS upgraded,
        countIf(served AND failed) AS failed,
        countIf(status = ${timed_out}) AS timeouts,
        countIf(status = ${abandoned}) AS abandoned,
        countIf(served AND answered AND queueing_delay IS NULL AND service_time IS NULL) AS unmeasured,
        countIf(served AND answered AND of_app) AS app_alone,
        -- A request that did not wait is below zero by up to half a tick, and the uncertainty of the offset: no fault.
        countIf(served AND queueing_delay < -half_tick - clock_tolerance - 1e-7) AS negative,
        sumIf(request_time, served) AS response_seconds,
        ${part_seconds_sums}
        ${wait_sums}
        quantilesDDStateIf(0.01, 0.5, 0.9, 0.99, 0.999)(request_time * 1e6, served) AS response_quantiles,
        quantilesDDStateIf(0.01, 0.5, 0.9, 0.99, 0.999)(of_queueing * 1e6, served AND queueing_delay IS NOT NULL) AS queueing_quantiles,
        quantilesDDStateIf(0.01, 0.5, 0.9, 0.99, 0.999)(of_service * 1e6, served AND service_time IS NOT NULL) AS service_quantiles,
        sumMapIf(map(bucket, toUInt64(1)), served) AS response_histogram,
        sumMapIf(map(bucket_of(of_queueing), toUInt64(1)), served AND queueing_delay IS NOT NULL) AS queueing_histogram,
        sumMapIf(map(bucket_of(of_service), toUInt64(1)), served AND service_time IS NOT NULL) AS service_histogram,
        ${part_by_response_sums}
        uniqExactStateIf(worker, served AND worker != '') AS workers
    FROM
    (
        SELECT
            toStartOfMinute(time) AS minute,
            service, route, proxy, upstream, worker, status, served, failed, answered, half_tick, clock_tolerance, request_time, queueing_delay, service_time,
            proxied, proxy_queue, connect, ifNull(vantage = 'app', false) AS of_app,
            ${part_values}
            bucket_of(request_time) AS bucket
        FROM requests_split${local}
        WHERE toStartOfMinute(time) IN (SELECT arrayJoin(due))
            AND time >= arrayMin(due) AND time < arrayMax(due) + INTERVAL 1 MINUTE
    )
    GROUP BY minute, service, route, proxy, upstream
) AS results USING (minute)
SETTINGS join_use_nulls = 0, do_not_merge_across_partitions_select_final = 1;
