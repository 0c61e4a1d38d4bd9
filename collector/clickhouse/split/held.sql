-- The worker's part of the time: until the headers, or until nginx gave up.
SELECT
    *,
    multiIf(
        abandoned, least(waited + ifNull(app_service, 0), after_connecting) - queue,
        answered, app_service,
        NULL) AS service_time
FROM queued
