-- Requests, each once, by the reasons for which values of their lines are not used.
SELECT dropped AS why, count() AS requests
FROM ($chosen)
GROUP BY why
