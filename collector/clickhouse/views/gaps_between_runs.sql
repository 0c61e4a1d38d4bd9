-- Gaps before runs of lines whose files are not sampled: see line_gaps.
CREATE OR REPLACE VIEW gaps_between_runs ${on_cluster} SQL SECURITY INVOKER AS
SELECT
    source,
    gap_begin AS begin,
    gap_end AS end,
    mean_bytes,
    next_time AS next_record,
    first_arrived AS noticed
FROM
(
    SELECT
        s.source AS source,
        s.begin AS gap_end,
        s.since AS next_time,
        s.end - s.begin AS run_bytes,
        s.lines AS run_lines,
        min(s.arrived) AS first_arrived,
        max(NOT s.refused AND NOT q.refused AND q.begin < s.begin AND s.begin < q.end
            AND q.since <= s.since AND s.since <= q.until) AS covered,
        max(s.lines = 1 AND s.begin < q.begin AND q.begin < s.end
            AND (q.begin + s.begin = s.end OR (s.source, q.begin + s.begin - s.end) GLOBAL IN (SELECT source, end FROM line_runs))) AS half_read,
        max(q.lines = 1 AND q.begin < s.begin AND s.begin < q.end
            AND (s.begin + q.begin = q.end OR (s.source, s.begin + q.begin - q.end) GLOBAL IN (SELECT source, end FROM line_runs))) AS after_half_read,
        max(q.begin > s.begin) AS continued,
        -- The latest record before this run lies further on in the file: a new file was begun, and its beginning is missing.
        argMaxIf(q.end, q.until, NOT q.refused AND q.until < s.since - INTERVAL 1 SECOND) > s.begin AND NOT any(s.refused) AS begins_again,
        -- The end of the run with the latest record among those that end before this one. Refused lines, which have no time of
        -- their own, may follow that run.
        if(any(s.refused),
            maxIf(q.end, NOT q.refused AND q.end <= s.begin AND abs(dateDiff('second', q.arrived, s.arrived)) <= 3600),
            argMaxIf(q.end, (q.until, q.end), NOT q.refused AND q.end <= s.begin AND q.until <= s.since + INTERVAL 5 SECOND)) AS stored_before,
        maxIf(q.end, q.refused AND q.end <= s.begin AND abs(dateDiff('second', q.arrived, s.arrived)) <= 3600) AS refused_before,
        if(begins_again, 0, greatest(stored_before, refused_before)) AS gap_begin,
        sum(q.end - q.begin) / sum(q.lines) AS mean_bytes
    FROM
    (
        SELECT u.source AS source, u.begin AS begin, u.end AS end, u.lines AS lines, u.since AS since, u.refused AS refused, u.arrived AS arrived
        FROM line_runs AS u
        GLOBAL LEFT JOIN
        (
            SELECT source, min(slot) AS first_slot, max(slot) AS last_slot FROM log_files WHERE file != '' GROUP BY source
        ) AS f ON u.source = f.source
        WHERE u.arrived NOT BETWEEN f.first_slot AND f.last_slot + INTERVAL 10 MINUTE
            AND u.since NOT BETWEEN f.first_slot AND f.last_slot + INTERVAL 10 MINUTE
            AND u.begin > 0 AND (u.source, u.begin) GLOBAL NOT IN (SELECT source, end FROM line_runs)
            AND (u.refused OR (u.source, u.since) GLOBAL NOT IN (SELECT source, min(since) FROM line_runs WHERE NOT refused GROUP BY source))
    ) AS s
    GLOBAL INNER JOIN line_runs AS q ON s.source = q.source
    GROUP BY s.source, s.begin, s.end, s.lines, s.since
)
WHERE NOT covered AND NOT half_read AND NOT after_half_read
    -- A single line at the end of the file may have been read in two parts: known when the next line arrives.
    AND (continued OR run_lines > 1 OR gap_end - gap_begin >= run_bytes);
