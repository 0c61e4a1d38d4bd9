-- The clock offset of each pair, where none drifted and none was set, and how far it may be below that.
SELECT
    *,
    transform(pair, {pairs:Array(UInt64)}, {offsets:Array(Float64)}, 0.) AS clock_offset,
    transform(pair, {pairs:Array(UInt64)}, {tolerances:Array(Float64)}, 0.) AS clock_tolerance
FROM facts
