-- How far each app's clock stands from nginx's, hour by hour; the formula is that of sojourn.components.clock_offsets. Requests answered
-- at the first attempt only, and what the headers report: spans are not read.
CREATE OR REPLACE VIEW clock_offsets ${on_cluster} SQL SECURITY INVOKER AS
WITH
    if(fine_seen = 0, 1e-3, 0) AS tick,
    lower_seen - tick AS likely,
    lower_seen - 2 * tick AS lower_bound,
    upper_seen - likely AS gap,
    -- A gap a network can explain is divided evenly; a larger one is a queue that was never empty.
    if(gap <= connecting + 0.010, gap / 2, (connecting + tick) / 2) AS one_way,
    least(likely + one_way, upper_seen) AS offset_seen,
    -- The clocks may well be the same: nothing is subtracted from delays.
    abs(offset_seen) <= greatest(least(upper_seen, likely + connecting + 0.010) - offset_seen, offset_seen - lower_bound, tick) AS same,
    if(same, 0, offset_seen) AS corrected
SELECT
    hour,
    proxy,
    upstream,
    offset_seen AS offset,
    greatest(upper_seen - offset_seen, offset_seen - lower_bound, tick) AS uncertainty,
    corrected AS correction,
    greatest(corrected - lower_bound, 0) AS tolerance,
    lower_bound AS lower,
    upper_seen AS upper,
    n AS requests
FROM
(
    SELECT
        hour, proxy, upstream, toFloat64(min(b.upper)) AS upper_seen, toFloat64(max(b.lower)) AS lower_seen,
        toFloat64(min(b.round_trip)) AS connecting, toUInt8(max(b.fine)) AS fine_seen, toUInt64(sum(b.requests)) AS n
    FROM clock_bounds AS b
    GROUP BY hour, proxy, upstream
);
