-- The clock offset of each pair at the time of each request, from lines: offset + drift (t - middle), in force since begin
-- (sojourn.components.clock_offsets.correction). The time is when the app read its clock; where durations do not tell it, what the app's
-- clock says, corrected by the offset there was when nginx turned to it. A pair without lines has a line of zero.
SELECT
    * EXCEPT (line, begins, middles, levels, drifts, began, first, read, last),
    levels[last] + drifts[last] * (read - middles[last]) / 1e6 AS clock_offset,
    transform(pair, {pairs:Array(UInt64)}, {tolerances:Array(Float64)}, 0.) AS clock_tolerance
FROM (
    SELECT
        *,
        transform(pair, {pairs:Array(UInt64)}, arrayEnumerate({pairs:Array(UInt64)}), length({pairs:Array(UInt64)}) + 1) AS line,
        {begins:Array(Array(Int64))}[line] AS begins,
        {middles:Array(Array(Int64))}[line] AS middles,
        {levels:Array(Array(Float64))}[line] AS levels,
        {drifts:Array(Array(Float64))}[line] AS drifts,
        toUnixTimestamp64Micro(ifNull(proxy_start, start)) AS began,
        arrayLastIndex(begin -> begin <= began, begins) AS first,
        began + toInt64(round(1e6 * ifNull(
            if(answered, header - app_service, NULL),
            ifNull(app_start, 0) - levels[first] - drifts[first] * (began - middles[first]) / 1e6))) AS read,
        arrayLastIndex(begin -> begin <= read, begins) AS last
    FROM facts
)
