-- Bytes of a log that the store lacks. Each row is one line or several, lost or still under way. Bytes are exact; lines are bytes over
-- the mean length of a line of that log, at least one; lines that the agent skipped because they are too long are counted by it.
--
-- Where the files of the log are sampled (see log_files): what is due of a file and covered by no run. It is due when the store has
-- acknowledged it to the agent, or when the file is not on the disk any more. file is the checksum of its first line.
--
-- Elsewhere file is empty, and a gap shows only when a later line of the same file arrives; not at the end of a file, nor before
-- the first run in the store. There is no gap before a run that begins where another ends, nor before one that begins within another
-- with records of the same time (sent again after a kill, from a checkpoint in the middle of a run). Any other run begins
-- after a gap.
--
-- When the agent reads a line of which nginx has written a part, Vector reports the byte at which the second part begins.
-- The line then seems to begin after a gap and to end after the beginning of the next line; it is no gap where the next
-- line begins exactly the length of that line after the end of the run before it.
CREATE OR REPLACE VIEW line_gaps ${on_cluster} SQL SECURITY INVOKER AS
SELECT
    g.source AS source,
    g.file AS file,
    g.begin AS begin,
    g.end AS end,
    g.end - g.begin AS bytes,
    greatest(1, toInt64(if(bytes >= 17000000 AND d.skipped > 0, d.skipped, round(bytes / if(g.mean_bytes > 0, g.mean_bytes, bytes))))) AS lines,
    g.next_record AS next_record,
    g.noticed AS noticed
FROM
(
    SELECT source, file, begin, end, mean_bytes, next_record, noticed FROM gaps_of_files
    UNION ALL
    SELECT source, '' AS file, begin, end, mean_bytes, toNullable(next_record), noticed FROM gaps_between_runs
) AS g
GLOBAL LEFT JOIN
(
    -- Lines over max_line_bytes (collector/vector/config/access_log.yaml) by hour: the agent counts them from its start on.
    SELECT agent, hour, toUInt64(sum(step)) AS skipped
    FROM
    (
        SELECT agent, hour, greatest(highest - lagInFrame(highest, 1, 0) OVER (
            PARTITION BY agent, of_agent ORDER BY hour ROWS BETWEEN 1 PRECEDING AND CURRENT ROW), 0) AS step
        FROM
        (
            SELECT agent, toString(tags) AS of_agent, toStartOfHour(time) AS hour, max(value) AS highest
            FROM pipeline_metrics
            WHERE metric = 'component_discarded_events_total' AND component = 'access_log'
            GROUP BY agent, of_agent, hour
        )
    )
    GROUP BY agent, hour
) AS d ON d.agent = substring(g.source, 1, position(g.source, ':') - 1) AND d.hour = toStartOfHour(g.noticed);
