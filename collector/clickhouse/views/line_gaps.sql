-- Bytes of a log that did not arrive, though later bytes of the same file did. Each row is one line or several, lost or
-- still under way. There is no gap before a run that begins where another ends, nor before one that begins within another
-- with records of the same time (sent again after a kill, from a checkpoint in the middle of a run). Any other run begins
-- after a gap. Bytes are exact; lines are bytes over the mean length of a line of that file, at least one.
--
-- When the agent reads a line of which nginx has written a part, Vector reports the byte at which the second part begins.
-- The line then seems to begin after a gap and to end after the beginning of the next line; it is no gap where the next
-- line begins exactly the length of that line after the end of the run before it.
--
-- Gaps at the end of a file that no later line follows are not seen, nor those before the first run in the store.
CREATE OR REPLACE VIEW line_gaps ${on_cluster} SQL SECURITY INVOKER AS
SELECT
    source,
    gap_begin AS begin,
    gap_end AS end,
    gap_end - gap_begin AS bytes,
    greatest(1, toInt64(round(bytes / mean_bytes))) AS lines,
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
        SELECT source, begin, end, lines, since, refused, arrived
        FROM line_runs
        WHERE begin > 0 AND (source, begin) GLOBAL NOT IN (SELECT source, end FROM line_runs)
            AND (refused OR (source, since) GLOBAL NOT IN (SELECT source, min(since) FROM line_runs WHERE NOT refused GROUP BY source))
    ) AS s
    GLOBAL INNER JOIN line_runs AS q ON s.source = q.source
    GROUP BY s.source, s.begin, s.end, s.lines, s.since
)
WHERE NOT covered AND NOT half_read AND NOT after_half_read
    -- A single line at the end of the file may have been read in two parts: known when the next line arrives.
    AND (continued OR run_lines > 1 OR gap_end - gap_begin >= run_bytes);
