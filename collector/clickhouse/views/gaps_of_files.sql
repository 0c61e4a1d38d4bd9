-- Bytes that are due and that no run covers, of logs whose files are sampled: see line_gaps.
CREATE OR REPLACE VIEW gaps_of_files ${on_cluster} SQL SECURITY INVOKER AS
SELECT
    c.source AS source,
    c.file AS file,
    toUInt64(greatest(c.covered, c.judged)) AS begin,
    toUInt64(least(c.begin, c.due)) AS end,
    m.mean_bytes AS mean_bytes,
    c.next_record AS next_record,
    c.noticed AS noticed
FROM
(
    SELECT
        r.source AS source, r.file AS file, r.begin AS begin, r.end AS end, r.lines AS lines, r.judged AS judged, r.due AS due,
        r.next_record AS next_record, r.noticed AS noticed,
        max(r.end) OVER (PARTITION BY r.source, r.file ORDER BY r.begin, r.end ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS covered,
        leadInFrame(r.begin, 1, 0) OVER (
            PARTITION BY r.source, r.file ORDER BY r.begin, r.end ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING) AS following
    FROM
    (
        SELECT
            f.source AS source, f.file AS file, p.begin AS begin, p.end AS end, p.lines AS lines, f.judged AS judged, f.due AS due,
            toNullable(p.since) AS next_record, p.arrived AS noticed
        FROM line_runs_of_files AS p
        GLOBAL INNER JOIN log_files_read AS f ON p.source = f.source AND p.file = f.file
        UNION ALL
        -- The end of what is due, as if a run without a line began there.
        SELECT source, file, due AS begin, due AS end, 0 AS lines, judged, due, NULL AS next_record, toDateTime(until, 'UTC') AS noticed
        FROM log_files_read
    ) AS r
) AS c
GLOBAL LEFT JOIN
(
    SELECT source, sum(end - begin) / sum(lines) AS mean_bytes FROM line_runs GROUP BY source
) AS m ON c.source = m.source
WHERE least(c.begin, c.due) > greatest(c.covered, c.judged)
    -- A line that was read in two parts.
    AND NOT (c.lines = 1 AND c.following = c.covered + c.end - c.begin);
