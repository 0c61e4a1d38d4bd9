-- Records that arrived and are not stored any more, by file: a part of a table that the engine cannot read, or rows that were
-- deleted. A record that expired (init --keep) is not lost. An hour without a note of arrivals is not in the view. arrived and
-- lost are exact up to 65,536 records in the hour, and estimates beyond. lost is 0 if and only if both sets are equal, or, beyond
-- that number, their samples.
--
-- Requests count in the hour in which they ended. A refused line that is delivered again is refused at another time, so refused
-- lines are compared over all hours, and count in the last one. A record that is stored under the name of another file (the log
-- was loaded again) is not lost.
CREATE OR REPLACE VIEW lost_records ${on_cluster} SQL SECURITY INVOKER AS
SELECT
    hour,
    kind,
    source,
    finalizeAggregation(received) AS arrived,
    finalizeAggregation(stored) AS present,
    arrayReduce('uniqMerge', [received, stored]) AS together,
    if(together = present, 0, greatest(1, toInt64(together) - toInt64(present))) AS lost
FROM
(
    SELECT 'requests' AS kind, hour, tupleElement(each, 1) AS source, tupleElement(each, 2) AS received, stored
    FROM
    (
        SELECT
            hour,
            uniqMergeStateIf(records, is_stored) AS stored,
            arrayJoin(groupArrayIf((source, records), NOT is_stored)) AS each
        FROM
        (
            SELECT hour, source, false AS is_stored, uniqMergeState(records) AS records
            FROM records_received
            WHERE kind = 'requests'
            GROUP BY hour, source
            UNION ALL
            SELECT toStartOfHour(time) AS hour, '' AS source, true AS is_stored, uniqState(${request_identity}) AS records
            FROM requests
            GROUP BY hour
        )
        GROUP BY hour
    )
    WHERE hour >= ${kept_since}
    UNION ALL
    SELECT 'dead_letters' AS kind, tupleElement(each, 1) AS hour, tupleElement(each, 2) AS source, tupleElement(each, 3) AS received, stored
    FROM
    (
        SELECT
            uniqMergeStateIf(records, is_stored) AS stored,
            arrayJoin(groupArrayIf((hour, source, records), NOT is_stored)) AS each
        FROM
        (
            SELECT max(r.hour) AS hour, source, false AS is_stored, uniqMergeState(r.records) AS records
            FROM records_received AS r
            WHERE kind = 'dead_letters' AND r.hour >= ${kept_since}
            GROUP BY source
            UNION ALL
            SELECT toDateTime(0, 'UTC') AS hour, '' AS source, true AS is_stored, uniqState(${letter_identity}) AS records
            FROM dead_letters
        )
    )
);
