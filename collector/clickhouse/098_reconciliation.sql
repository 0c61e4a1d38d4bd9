-- These views are attached to the plain names: on a cluster an insert is still whole there, and not spread over shards.
CREATE MATERIALIZED VIEW IF NOT EXISTS line_runs_of_requests ${on_cluster} TO line_runs
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT
    source,
    run[1].1 AS begin,
    run[-1].2 AS end,
    toUInt32(length(run)) AS lines,
    arrayMin(arrayMap(l -> l.3, run)) AS since,
    arrayMax(arrayMap(l -> l.3, run)) AS until,
    false AS refused,
    now('UTC') AS arrived
FROM
(
    SELECT
        source,
        arraySort(groupArray((position, position + line_bytes, time))) AS in_order,
        arrayPushFront(arrayPopBack(in_order), in_order[1]) AS before,
        arrayJoin(arraySplit((l, b) -> l.1 != b.2, in_order, before)) AS run
    FROM requests
    WHERE line_bytes > 0
    GROUP BY source
);

CREATE MATERIALIZED VIEW IF NOT EXISTS line_runs_of_dead_letters ${on_cluster} TO line_runs
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT
    source,
    position AS begin,
    position + line_bytes AS end,
    toUInt32(1) AS lines,
    time AS since,
    time AS until,
    true AS refused,
    now('UTC') AS arrived
FROM dead_letters AS d
WHERE d.kind = 'requests' AND d.line_bytes > 0;

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
CREATE VIEW IF NOT EXISTS line_gaps ${on_cluster} SQL SECURITY INVOKER AS
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
        argMaxIf(q.end, q.until, NOT q.refused AND q.until < s.since - INTERVAL 1 SECOND) > s.begin AND NOT any(s.refused) AS begun_anew,
        -- The end of the run with the latest record among those that end before this one. Refused lines, which have no time of
        -- their own, may follow that run.
        if(any(s.refused),
            maxIf(q.end, NOT q.refused AND q.end <= s.begin AND abs(dateDiff('second', q.arrived, s.arrived)) <= 3600),
            argMaxIf(q.end, (q.until, q.end), NOT q.refused AND q.end <= s.begin AND q.until <= s.since + INTERVAL 5 SECOND)) AS stored_before,
        maxIf(q.end, q.refused AND q.end <= s.begin AND abs(dateDiff('second', q.arrived, s.arrived)) <= 3600) AS refused_before,
        if(begun_anew, 0, greatest(stored_before, refused_before)) AS gap_begin,
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

-- Lines that arrived (each delivery counted) and lines that are missing, by file and hour. Missing lines count in the hour
-- in which the gap was noticed, and no longer once they arrive. outstanding: missing lines since the beginning; 0 is normal.
CREATE OR REPLACE VIEW reconciliation ${on_cluster} SQL SECURITY INVOKER AS
SELECT
    hour,
    source,
    lines_arrived AS arrived,
    n_gaps AS gaps,
    bytes_missing AS missing_bytes,
    lines_missing AS missing,
    sum(lines_missing) OVER (PARTITION BY source ORDER BY hour) AS outstanding
FROM
(
    SELECT
        hour, source,
        sum(l.arrived) AS lines_arrived, sum(l.gaps) AS n_gaps, sum(l.missing_bytes) AS bytes_missing, sum(l.missing) AS lines_missing
    FROM
    (
        SELECT toStartOfHour(minute) AS hour, source, toInt64(lines) AS arrived, 0 AS gaps, toInt64(0) AS missing_bytes, toInt64(0) AS missing
        FROM arrivals
        -- Lines from sojourn store load have no position.
        WHERE source GLOBAL IN (SELECT source FROM line_runs)
        UNION ALL
        SELECT toStartOfHour(noticed) AS hour, source, 0 AS arrived, 1 AS gaps, toInt64(bytes) AS missing_bytes, lines AS missing
        FROM line_gaps
    ) AS l
    GROUP BY hour, source
);
