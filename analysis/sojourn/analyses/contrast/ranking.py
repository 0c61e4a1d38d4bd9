"""Counts by block → values that are over-represented among the selected requests, with simultaneous intervals.

The share of a value is a ratio of two sums over blocks: p = Σ x_b / Σ n_b. Its variance is that of the linearised
ratio, with blocks as the sampling units (Cochran 1977, "Sampling techniques", section 6.3 and 9A.5; Kish & Frankel
1974): the influence of block b on the difference d = p1 - p0 of the selected (1) and the rest (0) is

    u_b = (x1_b - p1 n1_b) / (N1 - n1_b) - (x0_b - p0 n0_b) / (N0 - n0_b),        V = (B - 1)/B Σ u_b²

where N - n_b instead of N is the jackknife that deletes a block (Shao & Tu 1995, section 2.1), which large blocks
need. Runs that cross the border of two blocks add 2 Σ u_b u_b+1 where that is positive (Hansen & Hodrick 1980). Both
sides share the blocks: what fluctuates in both at once cancels. The interval is d ± t √V, or that of independent
requests by Wilson's limits with continuity (Newcombe 1998, method 11), or that of the usual fluctuation between
stretches of the rest as long as the selection, whichever is widest. t has B' - 1 degrees of freedom, where B' is
N1² / Σ n1_b², or the number of stretches less one. The error of 5 % is divided equally among the columns, and among the
values of each (Bonferroni; Dunn 1961).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import polars as pl

from sojourn.analyses.contrast.counting import LEAST_BLOCKS
from sojourn.model.arrays import Floats
from sojourn.model.statistics import share_interval, student_t

LEVEL = 0.95  # of all intervals together
LEAST_SELECTED = 5  # selected requests of a value; a value with fewer is not ranked
MOST_FREEDOM = 200
LEAST_EXPECTED = 5  # requests of a value in a stretch; the shares of rarer ones are no measure for the others
STRETCHES = (8, 16)  # of the rest, at least and at most
MAD = 1.4826  # standard deviation per median absolute deviation, of a normal distribution

RANKED: dict[str, pl.DataType] = {
    "column": pl.String(),
    "value": pl.String(),
    "selected": pl.Float64(),
    "rest": pl.Float64(),
    "difference": pl.Float64(),
    "low": pl.Float64(),
    "high": pl.Float64(),
    "lift": pl.Float64(),
    "requests": pl.Int64(),
    "weight": pl.Float64(),
}


@dataclass(frozen=True)
class Ranking:
    """The over-represented values.

    Attributes:
        rows: column, value (null: none), selected and rest (shares), difference, low and high (of the difference, 95 %
            for all compared values together), lift (ratio of the shares; null: the rest has none), requests (selected
            ones with this value), weight (sum of ``selected``); largest low first.
        values: number of compared values, of all columns.
        columns: the compared columns.
        few: columns with the selected requests in too few blocks; they are not compared.
    """

    rows: pl.DataFrame
    values: int = 0
    columns: tuple[str, ...] = ()
    few: tuple[str, ...] = field(default=())


@dataclass(frozen=True)
class Estimates:
    """The shares of the values of one column, arrays with one entry per value.

    Attributes:
        column: its name.
        values: the values.
        selected, rest: their shares.
        error: standard error of the difference, by blocks.
        usual: standard deviation of the shares of the rest, by ``usual_fluctuation``.
        stretches: number of stretches that ``usual`` is from; 0: too few.
        sizes: effective numbers of selected requests and of the rest.
        requests: selected requests with the value.
        weight: their sum of weights.
        freedom: degrees of freedom.
    """

    column: str
    values: list[str | None]
    selected: Floats
    rest: Floats
    error: Floats
    usual: Floats
    stretches: int
    sizes: tuple[float, float]
    requests: Floats
    weight: Floats
    freedom: int


def ranked(counts: pl.DataFrame, level: float = LEVEL) -> Ranking:
    """Return the values that are over-represented among the selected requests.

    Args:
        counts: as from ``sojourn.analyses.contrast.counting.counts_of``; blocks may differ between columns.
        level: of all intervals together.
    """
    tables = counts.partition_by("column", maintain_order=True) if len(counts) else []
    estimates = [estimates_of(table) for table in tables]
    compared = [each for each in estimates if each.freedom + 1 >= LEAST_BLOCKS]
    # Columns have equal parts of the error: one of a thousand values does not widen the intervals of the others.
    rows = [_rows(each, 1 - (1 - level) / (2 * len(compared) * len(each.values))) for each in compared]
    table = pl.concat(rows) if rows else pl.DataFrame(schema=RANKED)
    significant = (pl.col("low") > 0) & (pl.col("requests") >= LEAST_SELECTED)
    return Ranking(
        rows=table.filter(significant).sort("low", "column", "value", descending=[True, False, False]),
        values=sum(len(each.values) for each in compared),
        columns=tuple(each.column for each in compared),
        few=tuple(each.column for each in estimates if each not in compared),
    )


def estimates_of(counts: pl.DataFrame) -> Estimates:
    """Return the shares of the values of one column with their standard errors; ``counts``: of that column alone."""
    place: dict[str | None, int] = {}
    value = np.array([place.setdefault(each, len(place)) for each in counts["value"].to_list()], np.int64)
    block = counts["block"].rank("dense").to_numpy().astype(np.int64) - 1
    shape = (len(place), int(block.max()) + 1)

    def by_block(name: str) -> Floats:
        sums = np.zeros(shape)
        np.add.at(sums, (value, block), counts[name].to_numpy())
        return sums

    (selected, influence), (rest, of_rest) = (_influence(by_block(name)) for name in ("selected", "rest"))
    influence -= of_rest
    blocks = shape[1]
    variance = (influence**2).sum(axis=1)
    across = 2 * (influence[:, 1:] * influence[:, :-1]).sum(axis=1)
    variance = (variance + np.maximum(across, 0.0)) * (blocks - 1) / blocks
    weights = by_block("selected")
    usual, stretches = usual_fluctuation(by_block("rest"), _spanned(counts))
    squares = max(float(counts["squares"].sum()), 1e-300)
    return Estimates(
        column=counts["column"][0],
        values=list(place),
        selected=selected,
        rest=rest,
        error=np.sqrt(variance),
        usual=usual,
        stretches=stretches,
        sizes=(float(weights.sum()) ** 2 / squares, float(counts["rest"].sum())),
        requests=by_block("requests").sum(axis=1),
        weight=weights.sum(axis=1),
        freedom=min(int(effective_blocks(weights.sum(axis=0))) - 1, MOST_FREEDOM),
    )


def effective_blocks(weights: Floats) -> float:
    """Return the number of blocks of equal weight whose mean varies as much: (Σ w)² / Σ w² (Kish 1965)."""
    return float(weights.sum()) ** 2 / max(float(weights @ weights), 1e-300)


def usual_fluctuation(rest: Floats, spanned: float) -> tuple[Floats, int]:
    """Return the standard deviation of the shares of values between stretches of the rest as long as the selection.

    By the median absolute deviation (Hampel 1974; for few values Croux & Rousseeuw 1992), which an incident in one of
    the stretches does not change.

    Args:
        rest: values × blocks, in the order of time.
        spanned: number of requests in the time of the selection.

    Returns:
        Per value the standard deviation, and the number of stretches; zeros and 0 if there are too few.
    """
    sizes = rest.sum(axis=0)
    total = float(sizes.sum())
    length = min(max(spanned, total / STRETCHES[1]), total / STRETCHES[0])
    if total <= 0:
        return np.zeros(len(rest)), 0
    stretch = ((np.cumsum(sizes) - sizes / 2) / length).astype(np.int64)
    sums = np.zeros((len(rest), int(stretch.max()) + 1))
    np.add.at(sums.T, stretch, rest.T)
    whole = sums.sum(axis=0)
    enough = whole >= length / 2
    number = int(np.count_nonzero(enough))
    if number < STRETCHES[0] - 1:
        return np.zeros(len(rest)), 0
    shares, usual = sums[:, enough] / whole[enough], rest.sum(axis=1, keepdims=True) / total
    deviation = np.abs(shares - np.median(shares, axis=1, keepdims=True))
    scale = MAD * number / (number - 0.8)
    own = scale * np.median(deviation, axis=1)
    # Of one value there are few stretches; all values of a column fluctuate together.
    unit = np.sqrt(usual * (1 - usual))
    frequent = (usual * length >= LEAST_EXPECTED) & (unit > 0)
    if frequent.any():
        pooled = scale * np.median((deviation / np.where(unit > 0, unit, 1.0))[frequent[:, 0]])
        own = np.maximum(own, pooled * unit[:, 0])
    return np.asarray(own * min((length / spanned) ** 0.5, 1.0), np.float64), number


def _spanned(counts: pl.DataFrame) -> float:
    """Return the number of requests in the time of the selection: N1² / Σ n1_b² / n_b, n of all requests."""
    blocks = counts.group_by("block").agg(pl.col("selected", "rest", "requests").sum())
    selected, every = blocks["selected"].to_numpy(), (blocks["rest"] + blocks["requests"]).to_numpy()
    return float(selected.sum()) ** 2 / max(float((selected**2 / np.maximum(every, 1.0)).sum()), 1e-300)


def _influence(sums: Floats) -> tuple[Floats, Floats]:
    """Return the share of each value, and the influence of each block on it; ``sums``: values × blocks."""
    sizes = sums.sum(axis=0)
    total = float(sizes.sum())
    shares = sums.sum(axis=1) / max(total, 1e-300)
    others = np.maximum(total - sizes, 1e-12 * max(total, 1.0))
    return shares, (sums - shares[:, None] * sizes) / others


def _rows(estimates: Estimates, share: float) -> pl.DataFrame:
    critical = student_t(share, estimates.freedom)
    p1, p0 = estimates.selected, estimates.rest
    (low1, high1), (low0, high0) = (
        wilson(shares, size, critical) for shares, size in zip((p1, p0), estimates.sizes, strict=True)
    )
    by_blocks = critical * estimates.error
    if estimates.stretches:
        by_blocks = np.maximum(by_blocks, student_t(share, estimates.stretches - 1) * estimates.usual)
    down = np.maximum(by_blocks, np.hypot(p1 - low1, high0 - p0))
    up = np.maximum(by_blocks, np.hypot(high1 - p1, p0 - low0))
    difference = p1 - p0
    lift = np.divide(p1, p0, out=np.full(len(p1), np.nan), where=p0 > 0)
    return pl.DataFrame(
        {
            "column": [estimates.column] * len(p1),
            "value": estimates.values,
            "selected": p1,
            "rest": p0,
            "difference": difference,
            "low": np.maximum(difference - down, -1.0),
            "high": np.minimum(difference + up, 1.0),
            "lift": lift,
            "requests": estimates.requests.astype(np.int64),
            "weight": estimates.weight,
        },
        schema=RANKED,
    ).with_columns(pl.col("lift").fill_nan(None))


def wilson(shares: Floats, size: float, critical: float) -> tuple[Floats, Floats]:
    """Return Wilson's limits (1927) of shares, each widened by 1/(2 size) for continuity.

    Args:
        shares: the shares.
        size: number of requests, or the effective number of weighted ones.
        critical: quantile of the reference distribution.
    """
    low, high = share_interval(shares, size, critical)
    continuity = 1 / (2 * size)
    return np.clip(low - continuity, 0.0, shares), np.clip(high + continuity, shares, 1.0)
