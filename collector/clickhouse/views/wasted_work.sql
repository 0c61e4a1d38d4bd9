-- Work done for clients already gone: what the worker went on doing after nginx (504) or the client (499) gave up. The
-- span is joined by request id, or by its parent, the id nginx sent, where it has none (stock instrumentation). Of several
-- workers that reported, the one that began last served the last attempt. The spans are read against the few requests
-- concerned, so that memory follows the latter.
CREATE OR REPLACE VIEW wasted_work ${on_cluster} SQL SECURITY INVOKER AS
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
            arrayJoin([(request_id, ''), (trace, span_id)]) AS named
        FROM requests FINAL
        WHERE status IN ${given_up} AND attempts > 0 AND header IS NULL
    ) AS r
        ON if(s.request_id != '', (s.request_id, ''), (s.trace_id, s.parent_span_id)) = r.named
)
GROUP BY time, request_id, service, request_route, proxy, upstream, status, waited;
