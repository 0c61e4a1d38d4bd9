"""Summary statistics of a distribution, a trend test of a series, and the quantiles of Student's t."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sojourn.model.arrays import Floats, Ints
from sojourn.model.figures import FIGURES, QUANTILES, Summary, summary
from sojourn.model.parallel import in_threads


def summary_exprs(column: str) -> list[pl.Expr]:
    """Return mean, exact quantiles (linear between order statistics) and maximum of a column as ``column/figure``."""
    value = pl.col(column)
    quantiles = [value.quantile(q, "linear").alias(f"{column}/{name}") for name, q in QUANTILES.items()]
    return [value.mean().alias(f"{column}/mean"), *quantiles, value.max().alias(f"{column}/max")]


def summary_of(row: dict[str, object], column: str) -> Summary:
    """Return the figures of one column out of a row made by ``summary_exprs``; None without values."""
    return {figure: row[f"{column}/{figure}"] for figure in FIGURES}  # type: ignore[misc]


def summaries(rows: pl.LazyFrame, columns: Sequence[str]) -> dict[str, Summary]:
    """Return column -> its figures, nulls left out."""
    row = rows.select(pl.col(*columns).cast(pl.Float64)).collect(engine="streaming")
    # A copy of one's own: what polars calls writable may share its memory with the frame.
    figures = in_threads(lambda column: summary(row[column].drop_nulls().to_numpy().copy()), columns)
    return dict(zip(columns, figures, strict=True))


def summaries_by(rows: pl.LazyFrame, groups: pl.DataFrame, columns: Sequence[str]) -> dict[str, list[Summary]]:
    """Return column -> the figures of each group, nulls left out.

    Args:
        rows: the rows, in memory.
        groups: values of one column, one row per group (null is a group as well); rows of others are left out.
        columns: of numbers.
    """
    number = group_number(groups).alias("__group")
    values = rows.select(number, pl.col(*columns).cast(pl.Float64)).collect(engine="streaming")
    members = Members.of(values["__group"].to_numpy(), len(groups))

    def of(column: str) -> list[Summary]:
        return [summary(part) for part in members.parts(values[column])]

    return dict(zip(columns, in_threads(of, columns), strict=True))


def group_number(groups: pl.DataFrame) -> pl.Expr:
    """Return the place among ``groups`` (its first column) of each row's value; ``len(groups)`` for another."""
    name = groups.columns[0]
    kind = pl.UInt16 if len(groups) < np.iinfo(np.uint16).max else pl.UInt32  # numpy sorts 16 bits fast
    positions = pl.int_range(len(groups), dtype=kind, eager=True)
    # Three times as fast as a join, which keeps the order of all rows for a table of some.
    return pl.col(name).replace_strict(groups[name], positions, default=len(groups), return_dtype=kind)


@dataclass(frozen=True)
class Members:
    """Which rows belong to which group.

    Attributes:
        numbers: number of each row's group; rows without a group have ``count``.
        order: positions of the rows by group.
        count: number of groups.
    """

    numbers: npt.NDArray[Any]
    order: Ints
    count: int

    @classmethod
    def of(cls, numbers: npt.NDArray[Any], count: int) -> Members:
        """Return the members of ``count`` groups from the number of each row's group."""
        return cls(numbers, np.argsort(numbers, kind="stable"), count)

    def parts(self, values: pl.Series) -> list[Floats]:
        """Return the values of each group, one array each, nulls left out."""
        order = self.order[values.is_not_null().to_numpy()[self.order]] if values.null_count() else self.order
        sizes = np.bincount(self.numbers[order], minlength=self.count + 1)[: self.count]
        return np.split(values.to_numpy()[order[: sizes.sum()]], np.cumsum(sizes))[: self.count]


def trend(values: Floats) -> float:
    """Return the p value (two-sided) of Mann's test for a trend (Mann 1945, Kendall's tau against the position).

    Exact without ties (Kendall 1970, the distribution of inversions), otherwise by the normal approximation with the
    variance that ties leave (Kendall 1970, eq. 4.3). ``values``: at least two, not all alike.
    """
    count = len(values)
    first, second = np.triu_indices(count, 1)
    signs = np.sign(values[second] - values[first])
    ties = np.unique(values, return_counts=True)[1]
    if len(ties) == count:
        pairs = count * (count - 1) // 2
        rarer = min(int((signs < 0).sum()), int((signs > 0).sum()))
        if 2 * rarer == pairs:
            return 1.0
        return min(2 * sum(_with_inversions(count, rarer)) / math.factorial(count), 1.0)
    variance = count * (count - 1) * (2 * count + 5) - float((ties * (ties - 1) * (2 * ties + 5)).sum())
    return math.erfc(abs(float(signs.sum())) / math.sqrt(variance / 18) / math.sqrt(2))


def _with_inversions(count: int, most: int) -> list[int]:
    """Return how many permutations of ``count`` things have 0, 1, … ``most`` inversions."""
    counts = [1] + [0] * most
    for size in range(2, count + 1):
        sums = list(accumulate(counts, initial=0))
        counts = [sums[k + 1] - sums[max(k + 1 - size, 0)] for k in range(most + 1)]
    return counts


def slope(positions: Floats, values: Floats) -> float:
    """Return the median of the slopes between all pairs of points (Theil 1950; Sen 1968); positions are distinct."""
    first, second = np.triu_indices(len(values), 1)
    return float(np.median((values[second] - values[first]) / (positions[second] - positions[first])))


def student_t(share: float, freedom: int) -> float:
    """Return the value that Student's t does not exceed with a probability, by bisection of its closed form.

    Args:
        share: the probability, between 0.5 and 1.
        freedom: degrees of freedom, a whole number.
    """
    low, high = 0.0, math.pi / 2
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if _inside(middle, freedom) < 2 * share - 1 else (low, middle)
    return math.sqrt(freedom) * math.tan(high)


def _inside(angle: float, freedom: int) -> float:
    """Return P(-t < T < t) for t = sqrt(freedom) · tan(angle) (Abramowitz & Stegun 1964, eq. 26.7.3 and 26.7.4)."""
    square = math.cos(angle) ** 2
    odd = freedom % 2
    term = math.cos(angle) if odd else 1.0
    terms = 0.0
    for number in range(freedom // 2):
        terms += term
        term *= square * (2 * number + 1 + odd) / (2 * number + 2 + odd)
    return 2 / math.pi * (angle + math.sin(angle) * terms) if odd else math.sin(angle) * terms


def share_interval(share: Floats, count: Floats | float, critical: float) -> tuple[Floats, Floats]:
    """Return the interval of shares of independent requests (Wilson 1927, eq. 4).

    Args:
        share: the shares.
        count: number of requests of each, or of all.
        critical: quantile of the reference distribution, such as 1.96.
    """
    square = critical**2
    centre = (share + square / (2 * count)) / (1 + square / count)
    half = critical / (1 + square / count) * np.sqrt(share * (1 - share) / count + square / (4 * count**2))
    return centre - half, centre + half
