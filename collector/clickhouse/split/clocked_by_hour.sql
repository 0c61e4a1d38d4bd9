-- The clock offset of each pair in the hour in which the request ended, from the bounds that are stored (view clock_offsets), where it is
-- significant.
SELECT facts.*, ifNull(clock.corrected, 0) AS clock_offset, ifNull(clock.tolerated, 0) AS clock_tolerance
FROM facts
GLOBAL LEFT JOIN
(
    SELECT hour AS clock_hour, proxy AS clock_proxy, upstream AS clock_upstream, 
        toNullable(correction) AS corrected, toNullable(tolerance) AS tolerated
    FROM clock_offsets
) AS clock ON toStartOfHour(facts.time) = clock.clock_hour AND facts.proxy = clock.clock_proxy AND facts.upstream = clock.clock_upstream
