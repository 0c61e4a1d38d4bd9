-- Which bytes of which log arrived, as in 098, of raw lines: a shipper gives the position and the length of each. Lines are
-- not parsed for this: the first "time" in the text is the record's, and a run without one is a run of refused lines.
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
    SELECT
        concat(host, ':', if(endsWith(file, '.jsonl'), file, replaceRegexpOne(file, '(\\.jsonl)[.-][0-9][^/]*\\z', '\\1'))) AS source,
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
