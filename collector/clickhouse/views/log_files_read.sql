-- Each file of a log: how long it is, how much of it the store has acknowledged to the agent, and what can be judged of it. gone:
-- it is not on the disk any more, so what was not read of it is lost. (For an hour the agent may still have it open.) unread: bytes
-- that the agent has not read, or the store not acknowledged; overdue: of these, what was written a minute before the last
-- sample. due: bytes up to which the store must have its lines. silent: seconds since a sample of its host arrived.
CREATE OR REPLACE VIEW log_files_read ${on_cluster} SQL SECURITY INVOKER AS
SELECT
    host,
    source,
    file,
    since,
    until,
    size,
    nullIf(position, -1) AS read,
    position >= 0 AND size > position AND present < sampled - INTERVAL 30 SECOND AS gone,
    if(position < 0, 0, toUInt64(greatest(toInt64(size) - position, 0))) AS unread,
    if(position < 0 OR gone, 0, toUInt64(greatest(toInt64(a_minute_ago) - position, 0))) AS overdue,
    multiIf(gone, size, position < 0, settled, toUInt64(position)) AS due,
    -- Of a file whose older lines have expired, those are not missing.
    if(began < ${kept_since} OR began >= toDateTime64(4102444800, 3, 'UTC'), greatest(first_judged, first_size), first_judged) AS judged,
    sampled,
    dateDiff('second', last_arrived, now('UTC')) AS silent
FROM
(
    SELECT
        h.host AS host,
        p.source AS source,
        p.file AS file,
        min(p.slot) AS since,
        max(p.slot) AS until,
        toUInt64(max(p.size)) AS size,
        toInt64(max(p.read)) AS position,
        max(p.present) AS present,
        min(p.began) AS began,
        toUInt64(min(p.judged)) AS first_judged,
        toUInt64(argMin(p.low, p.slot)) AS first_size,
        toUInt64(maxIf(p.size, p.slot < h.sampled - INTERVAL 1 MINUTE)) AS a_minute_ago,
        -- Of an agent that does not show its positions: what was written a quarter of an hour ago must be stored.
        toUInt64(maxIf(p.size, p.slot < now('UTC') - INTERVAL 15 MINUTE)) AS settled,
        any(h.sampled) AS sampled,
        any(h.arrived) AS last_arrived
    FROM log_files AS p
    GLOBAL INNER JOIN
    (
        SELECT l.host AS host, CAST(max(l.sampled), 'DateTime64(3, \'UTC\')') AS sampled, CAST(max(l.arrived), 'DateTime(\'UTC\')') AS arrived FROM log_files AS l WHERE l.file = '' GROUP BY host
    ) AS h ON p.host = h.host
    WHERE p.file != ''
    GROUP BY host, source, file
);
