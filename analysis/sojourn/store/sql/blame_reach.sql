-- When the first request came that matters to waits that end, and to workers that are held, from {begin} on: the first one
-- that was still there a minute before {begin} (its worker may be held after its end), and the first one it met, or that
-- ended some milliseconds before: its worker may have been between two requests.
-- Upgraded connections (101) last as long as they are used, and do not wait.
WITH
    toDateTime64({begin:UInt32}, 6, 'UTC') AS begin,
    toDateTime64({reach:UInt32}, 6, 'UTC') AS reach,
    toDateTime64({end:UInt32}, 6, 'UTC') AS end,
    ifNull((
        SELECT minOrNull(start) FROM requests
        WHERE time >= begin - INTERVAL 1 MINUTE AND time < end + INTERVAL 1 HOUR AND start >= reach AND start < begin AND status != $switching_protocols
    ), begin) AS met
SELECT ifNull((
    SELECT minOrNull(start) FROM requests
    WHERE time >= met - INTERVAL 20 MILLISECOND AND time < end + INTERVAL 1 HOUR
        AND start >= reach AND start < met AND status != $switching_protocols
), met) AS first
