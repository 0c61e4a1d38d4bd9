-- Whether there is any span to join, by either way.
SELECT
    countIf(request_id != '') AS by_id,
    countIf(request_id = '' AND parent_span_id != '') AS by_parent
FROM spans
WHERE kind = 'server' AND $window
