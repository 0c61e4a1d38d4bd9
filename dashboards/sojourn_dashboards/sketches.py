"""Quantiles from what the store can merge: sketches, and histograms."""

from __future__ import annotations

ACCURACY = "to 1 % of the value"
HISTOGRAM_ACCURACY = "within a bucket 12 % wide"


def merged(part: str) -> str:
    """Return SQL: array of p50, p90, p99 and p99.9 in seconds over the rows of a group; NaN where nothing was measured.

    The sketches hold microseconds: ClickHouse's are not as accurate as they should be for values below 1.
    """
    return f"arrayMap(q -> q / 1e6, quantilesDDMerge(0.01, 0.5, 0.9, 0.99, 0.999)({part}_quantiles))"


def quantile_of(histogram: str, level: float) -> str:
    """Return SQL: quantile (s) of a histogram (a map of counts), by rank within its bucket; NULL where empty.

    Several times as fast to merge as a sketch.
    """
    buckets, counts, place = f"b_{histogram}", f"c_{histogram}", f"i_{histogram}"
    rank = f"{level} * {counts}[-1]"
    cumulated = f"arrayCumSum(arrayMap(b -> {histogram}[b], {buckets}))"
    return (
        f"if(empty(arraySort(mapKeys({histogram})) AS {buckets}), NULL, exp10(({buckets}["
        f"arrayFirstIndex(c -> c >= {rank}, {cumulated} AS {counts}) AS {place}]"
        f" + ({rank} - {counts}[{place} - 1]) / ({counts}[{place}] - {counts}[{place} - 1])) / 20))"
    )
