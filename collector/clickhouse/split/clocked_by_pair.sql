-- The clock offset of each pair, where none drifted and none was set.
SELECT
    *,
    transform(pair, {pairs:Array(UInt64)}, {offsets:Array(Float64)}, 0.) AS clock_offset
FROM facts
