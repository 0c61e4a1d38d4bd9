-- Requests, each once.
SELECT count() AS requests
FROM ($chosen)
