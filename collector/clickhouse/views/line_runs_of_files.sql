-- Each run of lines with the file that it lies in, where the files of its log are sampled (see log_files). How long a file was in the
-- ten seconds in which a line was written shows which file it was written into, also after the clock was set back. A run that fits
-- several files lies in each, and one that fits none (a refused line has no time, and one whose records are out of order has a wrong
-- one) in each that it can lie in: it then covers bytes that are not its own, but no loss is reported that is none.
CREATE OR REPLACE VIEW line_runs_of_files ${on_cluster} SQL SECURITY INVOKER AS
SELECT
    r.source AS source,
    arrayJoin(multiIf(
        empty(f.files), [''],
        notEmpty(fitting), arrayMap(p -> p.1, fitting),
        arrayMap(p -> p.1, arrayFilter(
            p -> r.begin < p.2 AND r.arrived >= p.3 - INTERVAL 5 MINUTE AND r.arrived <= p.4 + INTERVAL 1 DAY, f.files)))) AS file,
    r.begin AS begin,
    r.end AS end,
    r.lines AS lines,
    r.since AS since,
    r.arrived AS arrived,
    if(r.refused, [], arrayFilter(
        p -> p.2 <= r.begin AND r.begin <= p.3 AND r.since >= p.4 - INTERVAL 1 SECOND AND r.since <= p.5 + INTERVAL 1 SECOND, t.tracks)) AS fitting
FROM line_runs AS r
GLOBAL LEFT JOIN
(
    -- A line begins after the size that its file had before the time of the line, and before the size after it. It may be written up
    -- to a minute later than that time (access_log … flush=). A size that falls shows a clock that was set back: the ten seconds
    -- then have lines of two times. Where it was set back to before the first record of the file, that record bounds nothing.
    SELECT source, at, groupArray((file, from, to, first_record, last_record)) AS tracks
    FROM
    (
        SELECT source, file, slot, last_record,
            if(min(slot) OVER in_order < toStartOfInterval(began, INTERVAL 10 SECOND), toDateTime64(0, 3, 'UTC'), began) AS first_record,
            lagInFrame(slot, 1, toDateTime(0, 'UTC')) OVER in_order AS slot_before,
            lagInFrame(least_size, 1, 0) OVER in_order AS before,
            if(least_size < before, 0, before) AS from,
            leadInFrame(greatest_size, 1, 18446744073709551615) OVER in_order AS to
        FROM
        (
            SELECT source, file, slot, min(s.began) AS began, min(s.low) AS least_size, max(s.size) AS greatest_size,
                max(max(s.written)) OVER (PARTITION BY source, file) AS last_record
            FROM log_files AS s WHERE file != '' GROUP BY source, file, slot
        )
        WINDOW in_order AS (PARTITION BY source, file ORDER BY slot ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
    )
    ARRAY JOIN arrayFilter(
        x -> x = slot OR x > slot_before AND x >= toStartOfInterval(first_record, INTERVAL 10 SECOND), arrayMap(n -> slot - 10 * n, range(7))) AS at
    GROUP BY source, at
) AS t ON r.source = t.source AND toStartOfInterval(r.since, INTERVAL 10 SECOND) = t.at
GLOBAL LEFT JOIN
(
    SELECT source, groupArray((file, size, first_slot, last_sample)) AS files
    FROM
    (
        SELECT source, file, max(size) AS size, min(slot) AS first_slot, max(sampled) AS last_sample
        FROM log_files WHERE file != '' GROUP BY source, file
    )
    GROUP BY source
) AS f ON r.source = f.source;
