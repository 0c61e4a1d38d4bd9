-- The parts of a request that nginx alone tells, and when the app began less the attempts before and the clock's offset.
SELECT
    * REPLACE (
        if(proxied, ifNull(proxy_queue, 0), 0) AS proxy_queue,
        if(proxied, ifNull(retries, 0), 0) AS retries,
        if(proxied, ifNull(redirected, 0), 0) AS redirected,
        if(proxied, connect, NULL) AS connect),
    multiIf(
        proxied, ifNull((toUnixTimestamp64Micro(proxy_start) - toUnixTimestamp64Micro(start)) / 1e6, 0),
        status IN ${client_statuses}, request_time,
        0) AS upload,
    ifNull(if(proxied, connect, NULL), 0) AS connecting
FROM clocked
