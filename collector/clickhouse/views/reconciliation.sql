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
        FROM lines_received
        -- Lines from sojourn store load have no position.
        WHERE source GLOBAL IN (SELECT source FROM line_runs)
        UNION ALL
        SELECT toStartOfHour(noticed) AS hour, source, 0 AS arrived, 1 AS gaps, toInt64(bytes) AS missing_bytes, lines AS missing
        FROM line_gaps
    ) AS l
    GROUP BY hour, source
);
