-- Answers to questions that come up often. All of them count a record once, however often it was delivered.

-- How far each app's clock stands from nginx's, hour by hour; the formula is that of sojourn.explain.clock. Requests
-- answered at the first attempt only, and what the headers say: spans are not asked.
CREATE VIEW IF NOT EXISTS clock_offsets ${on_cluster} SQL SECURITY INVOKER AS
WITH
    if(fine = 0, 1e-3, 0) AS tick,
    lower_seen - tick AS likely,
    lower_seen - 2 * tick AS lower_bound,
    upper - likely AS gap,
    -- A gap a network can explain is divided evenly; a larger one is a queue that was never empty.
    if(gap <= round_trip + 0.010, gap / 2, (round_trip + tick) / 2) AS one_way,
    least(likely + one_way, upper) AS offset_seen
SELECT
    hour,
    proxy,
    upstream,
    offset_seen AS offset,
    greatest(upper - offset_seen, offset_seen - lower_bound, tick) AS uncertainty,
    lower_bound AS lower,
    upper,
    requests
FROM
(
    SELECT
        toStartOfHour(minute) AS hour,
        proxy,
        upstream,
        assumeNotNull(min(clock_upper)) AS upper,
        assumeNotNull(max(clock_lower)) AS lower_seen,
        assumeNotNull(min(clock_connect)) AS round_trip,
        sum(clock_requests) AS requests,
        sum(clock_fine) AS fine
    FROM rollup_minute FINAL
    WHERE clock_requests > 0
    GROUP BY hour, proxy, upstream
);

-- Work done for clients already gone: what the worker went on doing after nginx (504) or the client (499) gave up. The
-- span is found by request id, or by its parent, the id nginx sent, where it has none (stock instrumentation). Of several
-- workers that reported, the one that began last served the last attempt. The spans are read against the few requests
-- concerned, so that memory follows the latter.
CREATE VIEW IF NOT EXISTS wasted_work ${on_cluster} SQL SECURITY INVOKER AS
SELECT
    time,
    request_id,
    service,
    if(span_route != '', span_route, request_route) AS route,
    proxy,
    upstream,
    status,
    waited,
    argMax(span_worker, span_start) AS worker,
    argMax(spent, span_start) AS wasted,
    argMax(route_seen, span_start) AS span_route,
    max(span_start) AS started
FROM
(
    SELECT
        s.start AS span_start, s.seconds_held AS spent, s.worker AS span_worker, s.route AS route_seen,
        r.time AS time, r.request_id AS request_id, r.service AS service, r.route AS request_route, r.proxy AS proxy,
        r.upstream AS upstream, r.status AS status, toFloat64(r.request_time) AS waited
    FROM
    (
        SELECT start, seconds AS seconds_held, worker, route, request_id, trace_id, parent_span_id
        FROM spans FINAL
        WHERE kind = 'server'
    ) AS s
    INNER JOIN
    (
        SELECT
            time, service, route, proxy, upstream, status, request_time, request_id,
            arrayJoin([(request_id, ''), (trace_id, span_id)]) AS named
        FROM requests FINAL
        WHERE status IN (499, 504) AND attempts > 0 AND NOT answered
    ) AS r
        ON if(s.request_id != '', (s.request_id, ''), (s.trace_id, s.parent_span_id)) = r.named
)
GROUP BY time, request_id, service, request_route, proxy, upstream, status, waited;

-- Lines the agents read against lines that arrived, by file and hour. missing: read, and not arrived in that hour.
-- again: arrived beyond what was read, because a batch was sent twice or an agent was killed before it reported its count.
-- A line under way at the full hour is missing in the one hour and again in the next; outstanding is the balance since the
-- beginning, and what to watch: above zero and growing, lines are being lost.
CREATE VIEW IF NOT EXISTS reconciliation ${on_cluster} SQL SECURITY INVOKER AS
SELECT
    hour,
    source,
    lines_read AS read,
    lines_arrived AS arrived,
    greatest(lines_read - lines_arrived, 0) AS missing,
    greatest(lines_arrived - lines_read, 0) AS again,
    agent_restarts AS restarts,
    sum(lines_read - lines_arrived) OVER (PARTITION BY source ORDER BY hour) AS outstanding
FROM
(
    SELECT hour, source, sum(l.read) AS lines_read, sum(l.arrived) AS lines_arrived, sum(l.restarts) AS agent_restarts
    FROM
    (
        -- A counter begins at zero with its agent: one that fell has been started anew, and counted up to what it shows.
        SELECT
            toStartOfHour(time, 'UTC') AS hour,
            concat(agent, ':', file) AS source,
            toInt64(if(value >= before, value - before, value)) AS read,
            toInt64(0) AS arrived,
            toInt64(value < before) AS restarts
        FROM
        (
            SELECT
                time, agent, file, value,
                lagInFrame(value) OVER (
                    PARTITION BY agent, component, file, series ORDER BY time
                    ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS before
            FROM
            (
                SELECT time, agent, component, file, value, toString(mapFilter((k, v) -> k != 'pid', tags)) AS series
                FROM pipeline_metrics FINAL
                WHERE metric = 'component_received_events_total' AND component = 'access_log' AND file != ''
            )
        )
        UNION ALL
        SELECT toStartOfHour(minute) AS hour, source, 0 AS read, toInt64(lines) AS arrived, 0 AS restarts
        FROM arrivals
        -- What sojourn store load brought was read by no agent.
        WHERE source GLOBAL IN (SELECT concat(agent, ':', file) FROM pipeline_metrics WHERE component = 'access_log' AND file != '')
    ) AS l
    GROUP BY hour, source
);

-- What is there of each file: distinct requests by the hour in which they ended, and distinct refused lines by the hour in
-- which they were refused.
CREATE VIEW IF NOT EXISTS stored_records ${on_cluster} SQL SECURITY INVOKER AS
SELECT hour, source, sum(r.requests) AS requests, sum(r.dead_letters) AS dead_letters
FROM
(
    SELECT toStartOfHour(time) AS hour, source, count() AS requests, 0 AS dead_letters
    FROM requests FINAL
    GROUP BY hour, source
    UNION ALL
    SELECT toStartOfHour(time) AS hour, source, 0 AS requests, count() AS dead_letters
    FROM dead_letters FINAL
    WHERE kind = 'requests'
    GROUP BY hour, source
) AS r
GROUP BY hour, source;
