-- Load of every backend by the minute against what its workers can bear: throughput, busy workers, requests that wait, and
-- what it came to. Seconds count for the minute in which their request ended, so a minute can be busier than its workers.
CREATE VIEW IF NOT EXISTS saturation_minute ${on_cluster} SQL SECURITY INVOKER AS
SELECT
    minute,
    service,
    upstream,
    requests_ended / 60 AS throughput,
    workers_seen AS workers,
    s_service / 60 AS busy,
    if(workers_seen > 0, s_service / 60 / workers_seen, NULL) AS utilisation,
    s_response / 60 AS concurrency,
    s_queueing / 60 AS waiting,
    s_queueing / requests_ended AS mean_wait,
    p99_micros / 1e6 AS p99
FROM
(
    SELECT
        minute, service, upstream,
        sum(requests) AS requests_ended,
        uniqExactMerge(r.workers) AS workers_seen,
        sum(service_seconds) AS s_service,
        sum(response_seconds) AS s_response,
        sum(queueing_seconds) AS s_queueing,
        quantilesDDMerge(0.01, 0.5, 0.9, 0.99, 0.999)(response_quantiles)[3] AS p99_micros
    FROM rollup_minute AS r FINAL
    WHERE upstream != ''
    GROUP BY minute, service, upstream
)
WHERE requests_ended > 0;

-- Work for clients already gone as a share of all work, by the minute in which they went. Of those that went, unknown
-- are without a span that would tell what became of their work: more was wasted than is shown.
CREATE VIEW IF NOT EXISTS wasted_minute ${on_cluster} SQL SECURITY INVOKER AS
SELECT
    minute,
    service,
    s_wasted AS wasted,
    s_worked AS worked,
    if(s_wasted + s_worked > 0, s_wasted / (s_wasted + s_worked), 0) AS share,
    n_gone AS gone,
    if(n_gone > n_known, n_gone - n_known, 0) AS unknown
FROM
(
    SELECT
        minute, service,
        sum(both.wasted_seconds) AS s_wasted, sum(both.worked_seconds) AS s_worked,
        sum(both.given_up) AS n_gone, sum(both.found) AS n_known
    FROM
    (
        SELECT
            minute, service, 0 AS wasted_seconds, sum(service_seconds) AS worked_seconds,
            sum(timeouts + abandoned) AS given_up, toUInt64(0) AS found
        FROM rollup_minute FINAL
        GROUP BY minute, service
        UNION ALL
        SELECT
            toDateTime(toStartOfMinute(time), 'UTC') AS minute, service, sum(wasted) AS wasted_seconds, 0 AS worked_seconds,
            toUInt64(0) AS given_up, count() AS found
        FROM wasted_work
        GROUP BY minute, service
    ) AS both
    GROUP BY minute, service
);
