-- What there is to be cut into windows of load (sojourn.timeline.load_windows).
SELECT
    count() AS requests,
    min(start) AS first,
    max(start) AS last,
    avg(request_time) AS mean,
    uniqExact(upstream) AS upstreams
FROM chosen
WHERE status != $switching_protocols AND ($taken)
