-- Minutes whose requests without a span are to be counted: those that have waited longest, and not more of them at a time than
-- make two million rows. touched_minutes has when a row of a minute last arrived.
CREATE OR REPLACE VIEW spans_due${local} ${on_cluster} SQL SECURITY INVOKER AS
SELECT minute
FROM
(
    SELECT
        minute,
        sum(arrived) OVER (ORDER BY due, minute ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) - arrived AS before
    FROM
    (
        SELECT
            t.minute AS minute,
            t.arrived AS arrived,
            if(c.counted <= t.last_touched, t.last_touched + INTERVAL 10 MINUTE, t.last_touched
                + toIntervalMillisecond(4 * dateDiff('millisecond', t.last_touched, c.counted))) AS due
        FROM
        (
            SELECT minute, max(touched) AS last_touched, sum(n.arrived) AS arrived
            FROM touched_minutes${local} AS n
            WHERE minute > ${kept_since}${replica_guard}
            GROUP BY minute
        ) AS t
        LEFT JOIN (SELECT minute, max(computed) AS counted FROM spans_minute${local} GROUP BY minute) AS c ON c.minute = t.minute
        WHERE due <= now64(3) AND c.counted < t.last_touched + INTERVAL 1 DAY
    )
)
WHERE before < 2000000
SETTINGS join_use_nulls = 0;
