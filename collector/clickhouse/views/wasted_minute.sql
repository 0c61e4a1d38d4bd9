-- Work for clients already gone as a share of all work, by the minute in which they went. Of those that went, unknown
-- are without a span that would tell what became of their work: more was wasted than is shown.
CREATE OR REPLACE VIEW wasted_minute ${on_cluster} SQL SECURITY INVOKER AS
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
        sum(both.given_up) AS n_gone, sum(both.matched) AS n_known
    FROM
    (
        SELECT
            minute, service, 0 AS wasted_seconds, sum(service_seconds) AS worked_seconds,
            sum(timeouts + abandoned) AS given_up, toUInt64(0) AS matched
        FROM rollup_minute FINAL
        GROUP BY minute, service
        UNION ALL
        SELECT
            toDateTime(toStartOfMinute(time), 'UTC') AS minute, service, sum(wasted) AS wasted_seconds, 0 AS worked_seconds,
            toUInt64(0) AS given_up, count() AS matched
        FROM wasted_work
        GROUP BY minute, service
    ) AS both
    GROUP BY minute, service
);
