-- Requests of each backend by what is known of them (sojourn.explain.known).
SELECT
    upstream,
    countIf(NOT s.proxied) AS not_proxied,
    countIf(s.answered) AS answered,
    countIf(s.answered AND told_both AND queue_source IN ('stamp', 'span')) AS by_stamp,
    countIf(s.answered AND told_both AND queue_source = 'duration') AS by_duration,
    countIf(s.answered AND queue IS NULL) AS silent,
    countIf(s.proxied AND NOT s.answered AND queue IS NULL AND status = 504) AS timed_out,
    countIf(s.proxied AND NOT s.answered AND queue IS NULL AND status = 499) AS left,
    countIf(s.proxied AND NOT s.answered AND queue IS NULL AND status NOT IN (499, 504)) AS failed,
    countIf(s.impossible) AS impossible
FROM split AS s
WHERE served
GROUP BY upstream
ORDER BY upstream ASC NULLS FIRST
