-- Minutes whose rollup is to be computed. Those that waited longest come first, and not more of them at a time than make two million rows: however much arrives
-- at once, a refresh takes a bounded time, and the next one goes on.
CREATE OR REPLACE VIEW minutes_due${local} ${on_cluster} SQL SECURITY INVOKER AS
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
