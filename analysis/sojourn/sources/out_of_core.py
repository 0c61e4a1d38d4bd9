"""Exact quantiles of frames too large for memory, in two passes over batches of rows.

The first pass counts values in bins: a double's bits, read as a whole number, grow with it, and the highest ones number
the bin. The second keeps the values of the bins that hold a quantile: a few in a hundred.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sojourn.model.figures import QUANTILES, Floats, Summary
from sojourn.model.parallel import in_threads

BATCH = 1_000_000  # rows; those of a part of the file they lie in
# Bits of a bin's number: sign, exponent, and the first of the fraction. Of groups each bin counts for every group.
BITS, BITS_OF_GROUPS = 18, 14
Ints = npt.NDArray[np.int64]
Levels = Sequence[float]


def batches(rows: pl.LazyFrame, count: int, *exprs: pl.Expr | str) -> Iterator[pl.DataFrame]:
    """Yield ``exprs`` of the first ``count`` rows, a batch at a time."""
    for begin in range(0, count, BATCH):
        yield rows.slice(begin, BATCH).select(*exprs).collect()


@dataclass(frozen=True)
class Groups:
    """Which of some groups each row is of.

    Attributes:
        numbers: number of each row's group; rows without a group have one more than the last.
        count: number of groups.
    """

    numbers: npt.NDArray[Any]
    count: int

    @classmethod
    def of(cls, rows: pl.LazyFrame, count: int, groups: pl.DataFrame, where: pl.Expr) -> Groups:
        """Group rows by the values of a column.

        Args:
            rows: the frame.
            count: number of its rows.
            groups: the column, with one row per group; null is a group as well.
            where: the rows that count.
        """
        name = groups.columns[0]
        kind: type = np.uint16 if len(groups) < np.iinfo(np.uint16).max else np.uint32
        numbered = groups.select(name).with_row_index("number")
        numbers: npt.NDArray[Any] = np.empty(count, kind)
        begin = 0
        for batch in batches(rows, count, name, where.alias("counts")):
            codes = batch.join(numbered, on=name, how="left", nulls_equal=True, maintain_order="left")
            number = pl.when("counts").then("number").otherwise(None).fill_null(len(groups))
            numbers[begin : begin + len(batch)] = codes.select(number).to_series().to_numpy()
            begin += len(batch)
        return cls(numbers, len(groups))


@dataclass
class Bins:
    """Values of each group counted in bins.

    Attributes:
        groups: number of groups.
        bits: of a bin's number.
        dense: number of a bin -> its place among those that occur; -1: it does not occur.
        counts: place, group -> values.
    """

    groups: int
    bits: int
    dense: npt.NDArray[np.int32] = field(init=False)
    counts: Ints = field(init=False)

    def __post_init__(self) -> None:
        self.dense = np.full(1 << self.bits, -1, np.int32)
        self.counts = np.zeros((0, self.groups), np.int64)

    def places(self, values: Floats) -> npt.NDArray[np.int32]:
        """Return the place of each value's bin."""
        return self.dense[self._numbers(values)]

    def add(self, values: Floats, groups: npt.NDArray[Any] | None) -> None:
        """Count values; ``groups``: of each, None: there is one."""
        numbers = self._numbers(values)
        if (self.dense[numbers] < 0).any():
            occurring = np.bincount(numbers, minlength=len(self.dense)) > 0
            new = np.flatnonzero(occurring & (self.dense < 0))
            self.dense[new] = np.arange(len(self.counts), len(self.counts) + len(new))
            self.counts = np.concatenate([self.counts, np.zeros((len(new), self.groups), np.int64)])
        cells = self.dense[numbers].astype(np.int64) * self.groups + (0 if groups is None else groups)
        self.counts += np.bincount(cells, minlength=self.counts.size).reshape(self.counts.shape)

    def order(self) -> Ints:
        """Return the places in the order of their bins."""
        occurring = np.flatnonzero(self.dense >= 0)
        return self.dense[occurring].astype(np.int64)

    def _numbers(self, values: Floats) -> Ints:
        bits = values.view(np.int64)
        # Of negative values the bits grow as the value falls.
        ascending = np.where(bits < 0, ~bits, bits | np.iinfo(np.int64).min)
        return (ascending.view(np.uint64) >> np.uint64(64 - self.bits)).view(np.int64)


def quantiles(
    rows: pl.LazyFrame, count: int, value: pl.Expr, where: pl.Expr, levels: Levels, groups: Groups | None = None
) -> list[list[float | None]]:
    """Return quantiles of each group, or of all rows, linear between order statistics; None without values.

    Args:
        rows: the frame.
        count: number of its rows.
        value: of a row; nulls are left out.
        where: the rows that count.
        levels: of the quantiles, 0 … 1.
        groups: of the rows; None: one group.
    """
    bins = Bins(1, BITS) if groups is None else Bins(groups.count, BITS_OF_GROUPS)
    for values, numbers in _known(rows, count, value, where, groups):
        bins.add(values, numbers)
    order = bins.order()
    until = np.cumsum(bins.counts[order], axis=0)  # bin, group -> values up to the end of the bin
    sizes = until[-1] if len(order) else np.zeros(bins.groups, np.int64)
    wanted = np.zeros(bins.counts.shape, np.bool_)
    for group in np.flatnonzero(sizes).tolist():
        ranks = _ranks(int(sizes[group]), levels)
        wanted[order[np.searchsorted(until[:, group], ranks, side="right")], group] = True
    kept: list[Floats] = []
    of_kept: list[npt.NDArray[Any]] = []
    for values, numbers in _known(rows, count, value, where, groups):
        own = np.zeros(len(values), np.int64) if numbers is None else numbers
        inside = wanted[bins.places(values), own]
        kept.append(values[inside])
        of_kept.append(own[inside])
    values, own = np.concatenate([np.empty(0), *kept]), np.concatenate([np.empty(0, np.int64), *of_kept])
    sorted_values = values[np.lexsort((values, own))]
    begins = np.concatenate([[0], np.cumsum(np.bincount(own, minlength=bins.groups))])
    before = np.cumsum(np.where(wanted[order], 0, bins.counts[order]), axis=0)  # values that are not kept
    result: list[list[float | None]] = []
    for group, size in enumerate(sizes.tolist()):
        part = sorted_values[begins[group] : begins[group + 1]]
        result.append([_at(part, place, until[:, group], before[:, group]) for place in _places(size, levels)])
    return result


def summaries(
    rows: pl.LazyFrame, count: int, columns: Sequence[str], where: pl.Expr, groups: Groups | None = None
) -> dict[str, list[Summary]]:
    """Return column -> the quantiles of a summary in each group, or in all rows; arguments as of ``quantiles``."""

    def of(column: str) -> list[Summary]:
        known = quantiles(rows, count, pl.col(column), where, list(QUANTILES.values()), groups)
        return [dict(zip(QUANTILES, each, strict=True)) for each in known]

    return dict(zip(columns, in_threads(of, columns), strict=True))


def _known(
    rows: pl.LazyFrame, count: int, value: pl.Expr, where: pl.Expr, groups: Groups | None
) -> Iterator[tuple[Floats, npt.NDArray[Any] | None]]:
    """Yield the values that are known and the numbers of their groups, a batch at a time."""
    begin = 0
    for batch in batches(rows, count, pl.when(where).then(value).cast(pl.Float64).alias("value")):
        values = batch["value"]
        known = values.is_not_null().to_numpy()
        numbers = None
        if groups is not None:
            numbers = groups.numbers[begin : begin + len(batch)]
            known &= numbers < groups.count
            numbers = numbers[known]
        begin += len(batch)
        yield values.to_numpy()[known], numbers


def _places(size: int, levels: Levels) -> list[float]:
    return [(size - 1) * level for level in levels]


def _ranks(size: int, levels: Levels) -> Ints:
    places = _places(size, levels)
    return np.array(sorted({rank for place in places for rank in (math.floor(place), math.ceil(place))}), np.int64)


def _at(kept: Floats, place: float, until: Ints, before: Ints) -> float | None:
    """Return the value at a place among all, of which ``kept`` are the sorted values of some bins."""
    if not len(kept):
        return None

    def ranked(rank: int) -> float:
        return float(kept[rank - before[np.searchsorted(until, rank, side="right")]])

    below, above = ranked(math.floor(place)), ranked(math.ceil(place))
    return below + (above - below) * (place - math.floor(place))
