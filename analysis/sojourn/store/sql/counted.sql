-- How many requests at most, before anything delivered twice collapses.
SELECT count() AS requests
FROM ($chosen)
