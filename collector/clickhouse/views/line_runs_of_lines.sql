-- Which bytes of which log arrived: a shipper sends the position and the length of each line. Lines are not parsed for this: the first "time" in the text is the record's, and a run without one is a run of refused lines.
-- Attached to the plain name: on a cluster an insert is still whole there, and not spread over shards.
CREATE MATERIALIZED VIEW IF NOT EXISTS line_runs_of_lines ${on_cluster} TO line_runs
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
WITH
    arrayFilter(t -> t > 0, arrayMap(l -> l.3, run)) AS times,
    (us) -> fromUnixTimestamp64Micro(us, 'UTC') AS instant,
    toUnixTimestamp64Micro(now64(6)) AS current
SELECT
    source,
    run[1].1 AS begin,
    run[-1].2 AS end,
    toUInt32(length(run)) AS lines,
    instant(if(empty(times), current, arrayMin(times))) AS since,
    instant(if(empty(times), current, arrayMax(times))) AS until,
    empty(times) AS refused,
    now('UTC') AS arrived
FROM
(
    WITH ${log_name}
    SELECT
        concat(host, ':', log_name(file)) AS source,
        -- In the order of arrival, which is that of the file.
        groupArray((position, position + line_bytes, us)) AS in_order,
        arrayPushFront(arrayPopBack(in_order), in_order[1]) AS before,
        arrayJoin(arraySplit((l, b) -> l.1 != b.2, in_order, before)) AS run
    FROM
    (
        SELECT
            host,
            file,
            position,
            line_bytes,
            toFloat64OrZero(extract(left(line, 100000), '"time" *: *"?([0-9]+(?:\\.[0-9]+)?)')) AS seconds,
            -- Ten digits of seconds, or none.
            if(seconds >= 1000000000 AND seconds < 10000000000, toInt64(round(seconds * 1e6)), 0) AS us
        FROM incoming
        WHERE line_bytes > 0 AND host != '' AND file != ''
    )
    GROUP BY host, file
);
