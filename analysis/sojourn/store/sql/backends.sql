-- Requests of each backend by what is known of them (sojourn.model.coverage), and how long their services took: until the
-- span's end, where there is one. Bodies and work after the answer without a span are not in busy: held_minute has them, by
-- minutes, and not of chosen requests. One statement: to plan it costs more than to run it.
SELECT
    upstream,
    countIf(NOT s.proxied) AS not_proxied,
    countIf(s.answered) AS answered,
    countIf(s.answered AND has_both AND queue_source IN ('stamp', 'span')) AS by_stamp,
    countIf(s.answered AND has_both AND queue_source = 'duration') AS by_duration,
    countIf(s.answered AND has_both AND queue_source = 'inferred') AS inferred,
    countIf(s.answered AND queue IS NULL) AS silent,
    countIf(s.proxied AND NOT s.answered AND queue IS NULL AND NOT $lost_times AND status = $timed_out) AS timed_out,
    countIf(s.proxied AND NOT s.answered AND queue IS NULL AND NOT $lost_times AND status = $abandoned) AS left,
    countIf(s.proxied AND NOT s.answered AND queue IS NULL AND NOT $lost_times AND status NOT IN $given_up) AS failed,
    countIf(s.impossible) AS impossible,
    countIf(s.late_stamp) AS late_stamps,
    countIf(s.answered AND of_app) AS of_app,
    uniqExactIf(worker, s.proxied) AS workers,
    ifNull(sumIf(coalesce(span_seconds, service_time), s.proxied), 0) AS busy,
    maxOrNullIf(
        greatest(time, ifNull(span_start + toIntervalMicrosecond(toInt64(span_seconds * 1e6)), time)), s.proxied
    ) AS held_until
FROM split AS s
WHERE served
GROUP BY upstream
ORDER BY upstream ASC NULLS FIRST
