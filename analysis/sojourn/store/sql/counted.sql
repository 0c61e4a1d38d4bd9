-- How many requests at most, before anything delivered twice collapses, and between which instants (us) they ended.
SELECT
    count() AS requests,
    toUnixTimestamp64Micro(min(time)) AS first,
    toUnixTimestamp64Micro(max(time)) AS last
FROM ($chosen)
