-- Lines that were to be requests and could not, by reason.
SELECT reason, count() AS lines
FROM dead_letters FINAL
WHERE kind = 'requests' AND $window
GROUP BY reason
ORDER BY reason
