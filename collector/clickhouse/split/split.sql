-- The identity: request_time = upload + proxy_queue + retries + connect + queue + service_time + network + transfer + redirected
-- + send + unattributed.
SELECT
    *,
    proxy_queue + connecting + queue AS queueing_delay,
    ifNull(queue, 0) + ifNull(service_time, 0) AS accounted,
    queue IS NOT NULL AND service_time IS NOT NULL AS has_both,
    if(answered AND has_both, header - connecting - accounted, NULL) AS network,
    if(answered, attempt - header, NULL) AS transfer,
    multiIf(
        proxied AND NOT answered, after_connecting - accounted,
        answered AND NOT has_both, header - connecting - accounted,
        0) AS unattributed,
    request_time - upload - proxy_queue - retries - ifNull(attempt, 0) - redirected AS send
FROM held
