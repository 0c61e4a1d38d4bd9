"""Match two sets of intervals that describe the same requests one to one; ambiguous intervals are not matched.

Both sides have a key (equal where they may match), a begin and an end. A pair is possible if the begins are within a
tolerance of each other, or the ends are, and the second does not extend beyond the first by more than the tolerance.
Unique pairs are accepted repeatedly until there are no more; then a pair that is nearer than all other pairs of its two
sides by a clear margin. The remaining intervals are ambiguous and remain unpaired.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from sojourn.model.arrays import Ints
from sojourn.model.compilation import compiled

NEAREST = 8  # possible partners stored per interval
FAR = int(np.iinfo(np.int64).max)
MARGIN = 500_000  # ns: the second best is at least twice the best and this margin away
NOWHERE = int(np.iinfo(np.int64).min)  # an unknown instant


def _integers(frame: pl.DataFrame, name: str) -> Ints:
    """Return a column as integers, ``NOWHERE`` where it is null or missing."""
    if name not in frame.columns:
        return np.full(len(frame), NOWHERE)
    return frame[name].cast(pl.Int64).fill_null(NOWHERE).to_numpy()


def paired(first: pl.DataFrame, second: pl.DataFrame, tolerance: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Match the intervals of two sides.

    The columns of a side are key (UInt64), begin and end (ns since 1970; null: unknown), ``group``, ``number`` and
    optionally ``complete``, ``after`` and ``until``. Pairs of intervals with the same two groups are accepted or
    rejected together (requests of one connection, in the order of ``number``; both sides count from the same request
    where the first side is ``complete``). ``after`` and ``until`` (ns), where both sides know them, measure the
    distance of two intervals more exactly than begin and end: those of the second side lie between the first's begin
    and its ``until``.

    Args:
        first: the intervals on the wire.
        second: the intervals of the log, or of the other side of the proxy.
        tolerance: ns.

    Returns:
        Pairs and ambiguous pairs, columns first and second: positions in the frames. An interval is ambiguous if it has
        possible partners, and no unique one.
    """
    possible = _possible(first, second, tolerance)
    grouped = possible.group_by("first_group", "second_group", "shift").agg(
        pairs=pl.len(), distance=pl.col("distance").mean()
    )
    accepted = _one_to_one(grouped)
    chosen = possible.join(accepted, on=["first_group", "second_group", "shift"], how="semi")
    pairs = chosen.select("first", "second")
    left = possible.join(pairs, on="first", how="anti").join(pairs, on="second", how="anti")
    return pairs, left.select("first", "second")


def _possible(first: pl.DataFrame, second: pl.DataFrame, tolerance: int) -> pl.DataFrame:
    """Return the possible pairs: first, second, first_group, second_group, shift, distance (ns)."""
    parts = []
    for by in ("begin", "end"):
        one, two = (
            side.select("key", by)
            .with_row_index("at")
            .filter(pl.col(by).is_not_null())
            .sort("key", by)["at"]
            .to_numpy()
            for side in (first, second)
        )
        if len(one) and len(two):
            parts.append(_nearest_pairs(first, second, one, two, tolerance, by == "begin"))
    schema = {"first": pl.Int64(), "second": pl.Int64(), "distance": pl.Int64()}
    pairs = pl.concat([pl.DataFrame(schema=schema), *parts])
    at, other = pl.col("first"), pl.col("second")
    return pairs.with_columns(
        first_group=pl.lit(first["group"]).gather(at),
        second_group=pl.lit(second["group"]).gather(other),
        shift=pl.lit(second["number"]).gather(other) - pl.lit(first["number"]).gather(at),
        complete=pl.lit(first["complete"]).gather(at) if "complete" in first.columns else pl.lit(value=False),
    ).filter((pl.col("shift") == 0) | ~pl.col("complete"))


def _nearest_pairs(
    first: pl.DataFrame, second: pl.DataFrame, one: Ints, two: Ints, tolerance: int, by_begin: bool
) -> pl.DataFrame:
    keys = (first["key"].to_numpy()[one], second["key"].to_numpy()[two])
    bounds = [_integers(side, name)[at] for side, at in ((first, one), (second, two)) for name in ("begin", "end")]
    exact = [_integers(side, name)[at] for side, at in ((first, one), (second, two)) for name in ("after", "until")]
    partner, distance = _nearest(*keys, *bounds, *exact, tolerance, by_begin)
    row, column = np.nonzero(partner >= 0)
    return pl.DataFrame(
        {"first": one[row], "second": two[partner[row, column]], "distance": distance[row, column]},
        {"first": pl.Int64(), "second": pl.Int64(), "distance": pl.Int64()},
    )


@compiled
def _nearest(  # type: ignore[no-untyped-def]
    key_1, key_2, begin_1, end_1, begin_2, end_2, after_1, until_1, after_2, until_2, tolerance, by_begin
):
    """Return for each interval of the first side the nearest possible ones of the second, and their distances (ns)."""
    unknown = NOWHERE
    early = 100_000  # ns: a machine may read its clock in another order than the events occur
    count, others = len(key_1), len(key_2)
    partner = np.full((count, NEAREST), -1, np.int64)
    distance = np.full((count, NEAREST), FAR, np.int64)
    low = 0
    for i in range(count):
        edge = begin_1[i] if by_begin else end_1[i]
        while low < others and (
            key_2[low] < key_1[i]
            or (key_2[low] == key_1[i] and (begin_2[low] if by_begin else end_2[low]) < edge - tolerance)
        ):
            low += 1
        j = low
        while j < others and key_2[j] == key_1[i] and (begin_2[j] if by_begin else end_2[j]) <= edge + tolerance:
            k, j = j, j + 1
            if begin_2[k] < begin_1[i] - tolerance:
                continue
            far = abs(begin_2[k] - begin_1[i])
            if not by_begin and far <= tolerance:
                continue  # matched by its begin
            if end_1[i] != unknown and end_2[k] != unknown:
                if end_2[k] > end_1[i] + tolerance:
                    continue
                far += abs(end_2[k] - end_1[i])
            elif not by_begin:
                continue
            if after_1[i] != unknown and after_2[k] != unknown and until_1[i] != unknown and until_2[k] != unknown:
                if after_2[k] < begin_1[i] - early or until_2[k] > until_1[i] + early:
                    continue
                far = abs(after_2[k] - after_1[i]) + abs(until_1[i] - until_2[k])
            if far >= distance[i, NEAREST - 1]:
                continue
            place = NEAREST - 1
            while place > 0 and distance[i, place - 1] > far:
                distance[i, place] = distance[i, place - 1]
                partner[i, place] = partner[i, place - 1]
                place -= 1
            distance[i, place] = far
            partner[i, place] = k
    return partner, distance


def _one_to_one(possible: pl.DataFrame) -> pl.DataFrame:
    """Return the certain pairs among possible pairs of groups."""
    left, accepted = possible, []
    sides = ("first_group", "second_group")
    while len(left):
        alone = left.filter(*(pl.len().over(side) == 1 for side in sides))
        if not len(alone):
            clear = [_clearly_best(left, side) for side in sides]
            alone = left.filter(clear[0] & clear[1])
        if not len(alone):
            break
        accepted.append(alone)
        for side in sides:
            left = left.join(alone, on=side, how="anti")
    return pl.concat([possible.clear(), *accepted])


def _clearly_best(left: pl.DataFrame, side: str) -> pl.Series:
    """Return whether a pair is nearer than others of ``side`` by a margin; more matching requests rank first."""
    most = pl.col("pairs") == pl.col("pairs").max().over(side)
    distance, best = pl.col("distance"), pl.col("best")
    beyond = pl.when(distance > best).then(distance)
    return (
        left.select(side, distance=pl.when(most).then("distance"))
        .with_columns(best=distance.min().over(side))
        .with_columns(second=beyond.min().over(side), tied=(distance == best).sum().over(side))
        .select((distance == best) & (pl.col("tied") == 1) & (pl.col("second").fill_null(np.inf) >= 2 * best + MARGIN))
        .to_series()
        .fill_null(value=False)
    )
