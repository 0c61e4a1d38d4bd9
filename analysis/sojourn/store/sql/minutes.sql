-- Requests at most by the minute in which they ended, before anything delivered twice collapses.
SELECT
    intDiv(toUnixTimestamp64Micro(time), 60000000) AS minute,
    count() AS requests
FROM ($chosen)
GROUP BY minute
ORDER BY minute
