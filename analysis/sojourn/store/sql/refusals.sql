-- The refused lines themselves.
SELECT source, position, reason, raw
FROM dead_letters FINAL
WHERE kind = 'requests' AND $window
ORDER BY source, position
$limit
