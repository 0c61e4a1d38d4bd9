-- The rows of spans_minute for the minutes of spans_due: a request belongs to a span by its id, or by trace and parent, as in
-- split/. Spans are read from 20 minutes before to 20 minutes after a minute, in steps of ten: a request of more than ten minutes
-- does not count, nor do those without an id and a trace, and those in the log of an app server itself. Hashes of ids take a third
-- of the memory of ids.
CREATE OR REPLACE VIEW spans_counted${local} ${on_cluster} SQL SECURITY INVOKER AS
WITH
    (SELECT groupArray(minute) FROM spans_due${local}) AS due,
    arrayDistinct(arrayFlatten(arrayMap(
        m -> arrayMap(step -> toStartOfTenMinutes(m) + toIntervalMinute(step), [-20, -10, 0, 10, 20]), due))) AS steps
SELECT
    minute,
    now64(3, 'UTC') AS computed,
    results.services AS `counts.service`,
    results.routes AS `counts.route`,
    results.sources AS `counts.source`,
    results.answered AS `counts.requests`,
    results.bare AS `counts.without_span`
FROM (SELECT arrayJoin(due) AS minute) AS due_minutes
LEFT JOIN
(
    SELECT
        minute,
        groupArray(service) AS services,
        groupArray(route) AS routes,
        groupArray(source) AS sources,
        groupArray(n) AS answered,
        groupArray(n - matched) AS bare
    FROM
    (
        SELECT minute, service, route, source, count() AS n, countIf(has_span) AS matched
        FROM
        (
            SELECT
                toStartOfMinute(time) AS minute, service, route, source,
                sipHash64(request_id) IN
                (
                    SELECT sipHash64(request_id)
                    FROM spans
                    WHERE kind = 'server' AND request_id != ''
                        AND toStartOfTenMinutes(start) IN (SELECT arrayJoin(steps))
                        AND start >= arrayMin(steps) AND start < arrayMax(steps) + INTERVAL 10 MINUTE
                )
                OR sipHash64(trace, span_id) IN
                (
                    SELECT sipHash64(trace_id, parent_span_id)
                    FROM spans
                    WHERE kind = 'server' AND request_id = '' AND parent_span_id != ''
                        AND toStartOfTenMinutes(start) IN (SELECT arrayJoin(steps))
                        AND start >= arrayMin(steps) AND start < arrayMax(steps) + INTERVAL 10 MINUTE
                ) AS has_span
            FROM requests${local} FINAL
            WHERE toStartOfMinute(time) IN (SELECT arrayJoin(due))
                AND time >= arrayMin(due) AND time < arrayMax(due) + INTERVAL 1 MINUTE
                AND (app_service_time IS NOT NULL OR app_rest IS NOT NULL) AND vantage != 'app' AND request_time < 600
                AND (request_id != '' OR trace != '')
        )
        GROUP BY minute, service, route, source
    )
    GROUP BY minute
) AS results USING (minute)
SETTINGS join_use_nulls = 0, do_not_merge_across_partitions_select_final = 1;
