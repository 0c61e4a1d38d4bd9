-- Until nginx gave up, the client waited first in the queue and then on the worker: where a span begins after that, the
-- wait was all there was (sojourn.explain.components.with_components).
SELECT
    *,
    if(proxied, coalesce(response, request_time - upload - retries), NULL) AS attempt,
    attempt - connecting AS given,
    app_start - retries - connecting - clock_offset AS waited,
    proxied AND NOT answered AND waited IS NOT NULL AS abandoned,
    if(answered, header - connecting - app_service, NULL) AS queue_by_duration,
    multiIf(
        abandoned, least(waited, given),
        answered, coalesce(waited, queue_by_duration),
        NULL) AS queue
FROM timed
