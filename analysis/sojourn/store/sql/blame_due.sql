-- Minutes whose blame is to be computed, and how many rows arrived for them (duplicates too): those of a request that
-- arrived since they were last computed, from the minute it came in to the one after it ended. Why 60 s: see
-- collector/clickhouse/views/rollup_results.sql.
WITH
    toDateTime({since:UInt32}, 'UTC') AS since,
    toDateTime({until:UInt32}, 'UTC') AS until,
    known AS
    (
        SELECT minute, max(touched) AS touched, sum(arrived) AS arrived
        FROM touched_minutes
        GROUP BY minute
    ),
    fresh AS
    (
        SELECT minute
        FROM known
        LEFT JOIN (SELECT minute, max(version) AS computed FROM explained_minutes GROUP BY minute) AS e USING (minute)
        WHERE minute >= since AND minute < until AND ({every:UInt8} OR touched > e.computed - INTERVAL 60 SECOND)
    ),
    changed AS
    (
        SELECT DISTINCT arrayJoin(arrayMap(
            at -> toDateTime(at, 'UTC'),
            range(toUInt32(greatest(first, minute - INTERVAL 1 HOUR)), toUInt32(minute) + 61, 60))) AS minute
        FROM
        (
            SELECT
                toDateTime(toStartOfMinute(time), 'UTC') AS minute,
                toDateTime(toStartOfMinute(min(start)), 'UTC') AS first
            FROM requests
            WHERE minute GLOBAL IN (SELECT minute FROM fresh) AND status != $switching_protocols
            GROUP BY minute
        )
    )
SELECT minute, k.arrived
FROM changed
LEFT JOIN known AS k USING (minute)
WHERE minute >= since AND minute < until
ORDER BY minute
SETTINGS join_use_nulls = 0
