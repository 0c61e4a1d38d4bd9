-- Is every line of the logs stored? By file and hour, in two steps. From the file to the store: lines that arrived (each delivery
-- counted), and lines that are missing between them. Missing lines count in the hour in which the gap was noticed, and no longer
-- once they arrive; outstanding: missing lines since the beginning. In the store: lost, the records that arrived and are not
-- stored any more, by the hour of the record (see lost_records). 0 is normal for all. Missing lines are no fault of the store, and
-- lost records are no fault of the file or its agent. missing_spans: requests of the file in that hour whose app answered and whose
-- span is lost on its way (see spans_missing); no line is missing for it. outstanding is null in an hour in which no line arrived.
CREATE OR REPLACE VIEW reconciliation ${on_cluster} SQL SECURITY INVOKER AS
SELECT
    hour,
    source,
    sum(b.arrived) AS arrived,
    sum(b.gaps) AS gaps,
    sum(b.missing_bytes) AS missing_bytes,
    sum(b.missing) AS missing,
    max(b.outstanding) AS outstanding,
    sum(b.lost) AS lost,
    sum(b.missing_spans) AS missing_spans
FROM
(
    SELECT
        hour, source, sum(l.arrived) AS arrived, sum(l.gaps) AS gaps, sum(l.missing_bytes) AS missing_bytes, sum(l.missing) AS missing,
        sum(sum(l.missing)) OVER (PARTITION BY source ORDER BY hour) AS outstanding, toInt64(0) AS lost,
        toInt64(0) AS missing_spans
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
    UNION ALL
    SELECT hour, source, 0 AS arrived, 0 AS gaps, 0 AS missing_bytes, 0 AS missing, NULL AS outstanding, lost, 0 AS missing_spans
    FROM lost_records
    WHERE lost > 0
    UNION ALL
    SELECT toStartOfHour(minute) AS hour, source, 0 AS arrived, 0 AS gaps, 0 AS missing_bytes, 0 AS missing, NULL AS outstanding, 0 AS lost,
        assumeNotNull(s.missing) AS missing_spans
    FROM spans_missing AS s
    WHERE s.missing > 0
) AS b
GROUP BY hour, source;
