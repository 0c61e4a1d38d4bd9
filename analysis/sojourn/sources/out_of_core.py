"""Exact quantiles of frames too large for memory.

A sample says between which values each lies, and one pass keeps these and counts those below. If a quantile does not
lie where the sample said, the pass is repeated with wider intervals.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sojourn.model.arrays import Floats, Ints
from sojourn.model.figures import QUANTILES, Summary
from sojourn.model.parallel import in_threads
from sojourn.model.statistics import Members, group_number

BATCH = 500_000  # rows
SAMPLED = 200_000  # rows of a sample
DEVIATIONS = 6.0  # standard deviations of a sample's rank, by which an interval reaches to either side
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
        number = pl.when(where).then(group_number(groups)).fill_null(len(groups)).alias("number")
        parts = [batch["number"].to_numpy() for batch in batches(rows, count, number)]
        return cls(np.concatenate(parts) if parts else np.empty(0, np.uint16), len(groups))


def quantiles(
    rows: pl.LazyFrame, count: int, values: Mapping[str, pl.Expr], levels: Levels, groups: Groups | None = None
) -> dict[str, list[list[float | None]]]:
    """Return name -> quantiles of each group, or of all rows, linear between order statistics; None without values.

    Args:
        rows: the frame.
        count: number of its rows.
        values: name -> value of a row; nulls are left out.
        levels: of the quantiles, 0 … 1.
        groups: of the rows; None: one group of all.
    """
    exprs = [value.cast(pl.Float64).alias(name) for name, value in values.items()]
    every = max(count // SAMPLED, 1)
    # A batch at a time, each from the first row whose number is a multiple of the step.
    sampled = [
        batch.gather_every(every, -number * BATCH % every) for number, batch in enumerate(batches(rows, count, *exprs))
    ]
    sample = _Batch.of(
        pl.concat(sampled) if sampled else pl.DataFrame(schema=dict.fromkeys(values, pl.Float64)), 0, every, groups
    )
    sorted_sample = {name: [np.sort(part) for part in sample.parts(name)] for name in values}
    deviations = DEVIATIONS
    while True:
        parts_of = {
            name: [_Part(_intervals(part, levels, deviations)) for part in parts]
            for name, parts in sorted_sample.items()
        }
        begin = 0
        for table in batches(rows, count, *exprs):
            _count(parts_of, _Batch.of(table, begin, 1, groups))
            begin += len(table)
        if all(part.holds(levels) for parts in parts_of.values() for part in parts):
            return {name: [part.quantiles(levels) for part in parts] for name, parts in parts_of.items()}
        deviations *= 4


def summaries(
    rows: pl.LazyFrame, count: int, values: Mapping[str, pl.Expr], groups: Groups | None = None
) -> dict[str, list[Summary]]:
    """Return name -> the quantiles of a summary in each group, or in all rows; arguments as of ``quantiles``."""
    quantiles_by_name = quantiles(rows, count, values, list(QUANTILES.values()), groups)
    return {
        name: [dict(zip(QUANTILES, each, strict=True)) for each in parts] for name, parts in quantiles_by_name.items()
    }


@dataclass(frozen=True)
class _Batch:
    """Some rows, and which group each is of; ``members``: None if there is one group of all."""

    table: pl.DataFrame
    members: Members | None

    @classmethod
    def of(cls, table: pl.DataFrame, begin: int, step: int, groups: Groups | None) -> _Batch:
        """Return every ``step``-th of some rows, from the ``begin``-th of all."""
        if groups is None:
            return cls(table, None)
        return cls(table, Members.of(groups.numbers[begin::step][: len(table)], groups.count))

    def parts(self, name: str) -> list[Floats]:
        """Return the known values of each group."""
        values = self.table[name]
        return [values.drop_nulls().to_numpy()] if self.members is None else self.members.parts(values)


def _count(parts_of: Mapping[str, list[_Part]], batch: _Batch) -> None:
    """Add the values of a batch to their parts."""

    def add(name: str) -> None:
        for part, own in zip(parts_of[name], batch.parts(name), strict=True):
            part.add(own)

    in_threads(add, list(parts_of))


def _intervals(sample: Floats, levels: Levels, deviations: float) -> Floats:
    """Return intervals in which the quantiles of a sample's population lie: the ends of each (low, high], in order."""
    size = len(sample)
    ends: list[float] = []
    for level in sorted(levels):
        reach = deviations * math.sqrt(level * (1 - level) * size) + 2
        low, high = math.floor((size - 1) * level - reach), math.ceil((size - 1) * level + reach)
        begin = np.nextafter(sample[low], -np.inf) if low >= 0 else -np.inf
        end = sample[high] if high < size else np.inf
        if ends and begin <= ends[-1]:
            ends[-1] = max(ends[-1], end)
        else:
            ends += [float(begin), float(end)]
    return np.array(ends)


class _Part:
    """The values of a group: those in intervals are kept, the others counted."""

    def __init__(self, ends: Floats) -> None:
        """Begin without values; ``ends``: as from ``_intervals``."""
        self._ends = ends
        self._counts = np.zeros(len(ends) + 1, np.int64)  # below, inside, between, inside, …, above
        self._inside: list[tuple[Floats, Ints]] = []

    def add(self, values: Floats) -> None:
        """Add values."""
        inside = np.zeros(len(values), np.bool_)
        above = [len(values)]
        for end in self._ends:
            beyond = values > end
            inside ^= beyond
            above.append(int(np.count_nonzero(beyond)))
        self._counts -= np.diff([*above, 0])
        # Each different value once: of a column of zeros nearly all are inside.
        self._inside.append(np.unique(values[inside], return_counts=True))

    def holds(self, levels: Levels) -> bool:
        """Return whether the quantiles lie in the intervals."""
        until = np.cumsum(self._counts)
        ranks = [rank for place in self._places(levels) for rank in (math.floor(place), math.ceil(place))]
        return not until[-1] or bool((np.searchsorted(until, ranks, side="right") & 1).all())

    def quantiles(self, levels: Levels) -> list[float | None]:
        """Return the quantiles."""
        if not self._counts.any():
            return [None for _ in levels]
        values, times = (np.concatenate(each) for each in zip(*self._inside, strict=True))
        order = np.argsort(values)
        values, inside_until = values[order], np.cumsum(times[order])
        until = np.cumsum(self._counts)
        outside_until = np.cumsum(np.where(np.arange(len(self._counts)) & 1, 0, self._counts))

        def ranked(rank: int) -> float:
            own = rank - outside_until[np.searchsorted(until, rank, side="right")]
            return float(values[np.searchsorted(inside_until, own, side="right")])

        ranks = [(ranked(math.floor(place)), ranked(math.ceil(place)), place % 1) for place in self._places(levels)]
        return [below + (above - below) * part for below, above, part in ranks]

    def _places(self, levels: Levels) -> list[float]:
        return [(int(self._counts.sum()) - 1) * level for level in levels]
