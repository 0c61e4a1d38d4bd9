-- Until nginx gave up, the client waited first in the queue and then on the worker: where a span begins after that, the
-- wait was all there was (sojourn.components.split.with_components).
SELECT
    * REPLACE (multiIf(
        NOT impossible, queue_source,
        app_service IS NOT NULL AND NOT of_app, 'duration',
        'none') AS queue_source),
    if(proxied, coalesce(response, request_time - upload - proxy_queue - retries - redirected), NULL) AS attempt,
    attempt - connecting AS after_connecting,
    if(impossible, NULL, since_connected) AS waited,
    proxied AND NOT answered AND waited IS NOT NULL AS abandoned,
    if(answered AND NOT of_app, header - connecting - app_service, NULL) AS queue_by_duration,
    multiIf(
        abandoned, least(waited, after_connecting),
        answered, coalesce(waited, queue_by_duration),
        NULL) AS queue
FROM
(
    -- A queue longer than the response that contains it; a stamp of a proxy in front is older than this response.
    SELECT
        *,
        app_start - half_tick - proxy_queue - retries - connecting - clock_offset AS since_connected,
        toBool(ifNull(
            answered AND since_connected > header - connecting + ${impossible}
                AND NOT ifNull(stamp = 'inbound' AND proxy_start = request_start, 0),
            false)) AS impossible
    FROM timed
)
