-- Load of every backend by the minute relative to its workers: throughput, busy workers, requests that wait, response time.
-- busy counts held time in the minutes that `sojourn store explain` has computed; busy_is says so. Otherwise it counts
-- service time only, which ends with the headers, in the minute in which the request ended: a minute can then be busier than
-- its workers, and workers that send bodies or work after the answer are missing. Minutes in which workers were held and no
-- request ended have a throughput of 0. waiting and mean_wait are null where no wait is known.
CREATE OR REPLACE VIEW saturation_minute ${on_cluster} SQL SECURITY INVOKER AS
SELECT
    minute,
    service,
    upstream,
    n_ended / 60 AS throughput,
    if(n_workers > 0, n_workers, n_seen) AS workers,
    if(s_held > 0, s_held, s_service) / 60 AS busy,
    if(workers > 0, busy / workers, NULL) AS utilisation,
    multiIf(s_held = 0, 'service only', s_least > 0, 'held at least', 'held') AS busy_is,
    s_response / 60 AS concurrency,
    if(n_ended = 0 OR has_waits, s_queueing / 60, NULL) AS waiting,
    if(n_ended > 0 AND has_waits, s_queueing / n_ended, NULL) AS mean_wait,
    if(n_ended > 0, p99_micros / 1e6, NULL) AS p99
FROM
(
    SELECT
        minute, service, upstream,
        sum(one.ended) AS n_ended, max(one.seen) AS n_seen, max(one.known) AS n_workers,
        sum(one.service_s) AS s_service, sum(one.held_s) AS s_held, sum(one.least_s) AS s_least,
        sum(one.response_s) AS s_response, sum(one.queueing_s) AS s_queueing, sum(one.waits) > 0 AS has_waits, max(one.micros) AS p99_micros
    FROM
    (
        SELECT
            minute, service, upstream,
            sum(requests) AS ended, uniqExactMerge(r.workers) AS seen, toUInt32(0) AS known,
            sum(service_seconds) AS service_s, 0. AS held_s, 0. AS least_s,
            sum(response_seconds) AS response_s, sum(queueing_seconds) AS queueing_s,
            sum(waits_measured) + sum(waits_part_queue) + sum(requests) - sum(waits_proxied) AS waits,
            quantilesDDMerge(0.01, 0.5, 0.9, 0.99, 0.999)(response_quantiles)[3] AS micros
        FROM rollup_minute AS r FINAL
        WHERE upstream != ''
        GROUP BY minute, service, upstream
        HAVING ended > 0
        UNION ALL
        SELECT
            minute, service, upstream,
            toUInt64(0) AS ended, toUInt64(0) AS seen, max(h.workers) AS known,
            0. AS service_s, sum(seconds) AS held_s, sumIf(seconds, phase = 'at_least') AS least_s,
            0. AS response_s, 0. AS queueing_s, 0. AS waits, 0. AS micros
        FROM held_minute AS h FINAL
        WHERE upstream != '' AND seconds != 0
        GROUP BY minute, service, upstream
    ) AS one
    GROUP BY minute, service, upstream
);
