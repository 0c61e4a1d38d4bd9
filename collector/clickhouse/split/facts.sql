-- What is known of the app's part, before any clock is corrected (sojourn.components.split.with_app_facts).
SELECT
    *,
    attempts > 0 AS proxied,
    ifNull(vantage = 'app', false) AS of_app,
    attempts > 0 AND header IS NOT NULL AS answered,
    if(answered, app_queueing_delay + (toUnixTimestamp64Micro(request_start) - toUnixTimestamp64Micro(proxy_start)) / 1e6, NULL) AS by_stamp,
    if(proxied, (toUnixTimestamp64Micro(span_start) - toUnixTimestamp64Micro(proxy_start)) / 1e6, NULL) AS by_span,
    coalesce(by_stamp, by_span) AS app_start,
    if(ifNull(toUnixTimestamp64Micro(proxy_start) % ${tick}, 1) = 0, ${tick} / 2e6, 0) AS half_tick,
    if(proxied, coalesce(if(answered, app_service_time, NULL), span_service_time, span_seconds), NULL) AS app_service,
    multiIf(
        by_stamp IS NOT NULL, 'stamp',
        by_span IS NOT NULL, 'span',
        answered AND app_service IS NOT NULL AND NOT of_app, 'duration',
        'none') AS queue_source,
    if(proxied AND NOT answered, span_seconds, NULL) AS wasted,
    ${failed} AS failed,
    status != ${switching_protocols} AS served,
    -- One number for a pair of hosts: a hash of either is made once a distinct value, of both together once a row.
    bitXor(sipHash64(ifNull(proxy, '')), bitRotateLeft(sipHash64(ifNull(upstream, '')), 1)) AS pair
FROM
(
    -- Of a late stamp no instant of nginx is known.
    SELECT * REPLACE (if(late_stamp, NULL, r.proxy_start) AS proxy_start)
    FROM
    (
        SELECT
            *,
            toBool(attempts > 0 AND ifNull(
                toUnixTimestamp64Micro(proxy_start) - toUnixTimestamp64Micro(time) + round(1e6 * ifNull(toFloat64(response), 0))
                    > ${late_steps} * greatest(1e6 * time_step, ${tick}),
                false)) AS late_stamp
        FROM reported
    ) AS r
)
