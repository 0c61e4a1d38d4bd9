-- How many services the requests of a selection are of.
SELECT uniqExact(service) AS services
FROM chosen
WHERE status != $switching_protocols AND ($taken)
