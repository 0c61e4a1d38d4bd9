"""One-to-one pairs of two sets of intervals that tell of the same requests, or none where several would do.

Both sides have a key (equal where they may be one), a begin and an end. A pair is possible where the begins are within
a tolerance of each other, or the ends are, and the second does not reach out of the first by more than that. What is
possible in one way only is taken; what is left is looked at again, until nothing more is alone; then a pair is taken
that is nearer than every other of both its sides by a clear margin. The rest stays unpaired: it is ambiguous.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sojourn.model.compilation import compiled

Ints = npt.NDArray[np.int64]

NEAREST = 8  # possible partners that are kept of each
FAR = int(np.iinfo(np.int64).max)
MARGIN = 500_000  # ns: the second best is at least so much, and twice the best, further away
NOWHERE = int(np.iinfo(np.int64).min)  # an instant that is not known


@dataclass(frozen=True)
class Side:
    """Intervals: ``frame`` has key (UInt64), begin and end (ns since 1970; null: not known), and group.

    ``group``: pairs of intervals whose groups are the same stand or fall together (requests of one connection, in their
    order ``number``, which both sides count from the same one where the first is ``complete``). ``after`` and
    ``until``, where both sides know them, are instants that tell more exactly than begin and end how near two intervals
    are: those of the second side lie within the first's begin and ``until``.
    """

    frame: pl.DataFrame

    def array(self, name: str) -> Ints:
        """A column as integers."""
        if name not in self.frame.columns:
            return np.full(len(self.frame), NOWHERE)
        return self.frame[name].cast(pl.Int64).fill_null(NOWHERE).to_numpy()


def paired(first: Side, second: Side, tolerance: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Positions in both frames of those that are one: (pairs, ambiguous), columns first and second.

    ``tolerance``: ns. Ambiguous: those that have a possible partner and none that is theirs alone.
    """
    possible = _possible(first, second, tolerance)
    grouped = possible.group_by("first_group", "second_group", "shift").agg(
        pairs=pl.len(), distance=pl.col("distance").mean()
    )
    taken = _one_to_one(grouped)
    chosen = possible.join(taken, on=["first_group", "second_group", "shift"], how="semi")
    pairs = chosen.select("first", "second")
    left = possible.join(pairs, on="first", how="anti").join(pairs, on="second", how="anti")
    return pairs, left.select("first", "second")


def _possible(first: Side, second: Side, tolerance: int) -> pl.DataFrame:
    """Pairs that are possible: first, second, first_group, second_group, shift, distance (ns)."""
    parts = []
    for by in ("begin", "end"):
        one, two = (
            side.frame.with_row_index("at").filter(pl.col(by).is_not_null()).sort("key", by)["at"].to_numpy()
            for side in (first, second)
        )
        if len(one) and len(two):
            parts.append(_found(first, second, one, two, tolerance, by == "begin"))
    schema = {"first": pl.Int64(), "second": pl.Int64(), "distance": pl.Int64()}
    found = pl.concat([pl.DataFrame(schema=schema), *parts])
    here, there = first.frame, second.frame
    at, other = pl.col("first"), pl.col("second")
    return found.with_columns(
        first_group=pl.lit(here["group"]).gather(at),
        second_group=pl.lit(there["group"]).gather(other),
        shift=pl.lit(there["number"]).gather(other) - pl.lit(here["number"]).gather(at),
        complete=pl.lit(here["complete"]).gather(at) if "complete" in here.columns else pl.lit(value=False),
    ).filter((pl.col("shift") == 0) | ~pl.col("complete"))


def _found(first: Side, second: Side, one: Ints, two: Ints, tolerance: int, by_begin: bool) -> pl.DataFrame:
    keys = (first.frame["key"].to_numpy()[one], second.frame["key"].to_numpy()[two])
    bounds = [side.array(name)[at] for side, at in ((first, one), (second, two)) for name in ("begin", "end")]
    exact = [side.array(name)[at] for side, at in ((first, one), (second, two)) for name in ("after", "until")]
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
    """Of each of the first side, positions of the nearest possible ones of the second, and how far off they are."""
    unknown = NOWHERE
    early = 100_000  # ns: clocks of one machine are read in another order than things happen
    count, others = len(key_1), len(key_2)
    partner = np.full((count, NEAREST), -1, np.int64)
    distance = np.full((count, NEAREST), FAR, np.int64)
    low = 0
    for i in range(count):
        here = begin_1[i] if by_begin else end_1[i]
        while low < others and (
            key_2[low] < key_1[i]
            or (key_2[low] == key_1[i] and (begin_2[low] if by_begin else end_2[low]) < here - tolerance)
        ):
            low += 1
        j = low
        while j < others and key_2[j] == key_1[i] and (begin_2[j] if by_begin else end_2[j]) <= here + tolerance:
            k, j = j, j + 1
            if begin_2[k] < begin_1[i] - tolerance:
                continue
            far = abs(begin_2[k] - begin_1[i])
            if not by_begin and far <= tolerance:
                continue  # found by its begin
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
    """Of possible pairs of groups those that are certain."""
    left, taken = possible, []
    sides = ("first_group", "second_group")
    while len(left):
        alone = left.filter(*(pl.len().over(side) == 1 for side in sides))
        if not len(alone):
            clear = [_clearly_best(left, side) for side in sides]
            alone = left.filter(clear[0] & clear[1])
        if not len(alone):
            break
        taken.append(alone)
        for side in sides:
            left = left.join(alone, on=side, how="anti")
    return pl.concat([possible.clear(), *taken])


def _clearly_best(left: pl.DataFrame, side: str) -> pl.Series:
    """Nearer than every other partner of ``side`` by a margin; more requests that fit count for more than nearness."""
    most = pl.col("pairs") == pl.col("pairs").max().over(side)
    here, best = pl.col("here"), pl.col("best")
    beyond = pl.when(here > best).then(here)
    return (
        left.select(side, here=pl.when(most).then("distance"))
        .with_columns(best=here.min().over(side))
        .with_columns(second=beyond.min().over(side), tied=(here == best).sum().over(side))
        .select((here == best) & (pl.col("tied") == 1) & (pl.col("second").fill_null(np.inf) >= 2 * best + MARGIN))
        .to_series()
        .fill_null(value=False)
    )


def keyed(*columns: Any) -> pl.Expr:
    """One number of several columns, the same where all of them are."""
    return pl.struct(*columns).hash(7)
