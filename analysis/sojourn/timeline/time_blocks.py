"""Requests in windows and bins of response time, and their block bootstrap.

Requests that are near in time met the same queue. Intervals from resampling single requests would be far too narrow,
so blocks of time are resampled: the circular moving-block bootstrap (Künsch 1989; Politis & Romano 1992). Every
resample is a weight for each of ``WINDOWS`` windows; memory holds only sums by window and bin, for any number of
requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from sojourn.model.arrays import Floats
from sojourn.model.components import COMPONENTS
from sojourn.model.frame import INSTANT
from sojourn.model.measures import exceeding_ranks
from sojourn.sources.frame_measures import without_upgraded

WINDOWS = 200
BLOCK = 10  # windows drawn together
RESAMPLES = 500
LEVEL = 0.95
OTHER = "(other)"
LINEAR, TAIL = 300, 400  # bins even in rank, and even in the logarithm of the share beyond


@dataclass(frozen=True)
class Blocks:
    """Sums of one side, ready for resampling.

    Attributes:
        requests: (windows, bins) number of requests.
        edges: (bins + 1) response times, s, ascending.
        sums: component -> (windows, bins), s; unknown counts as 0, so that they add up to the response time.
        groups: values of the group.
        group_requests: (windows, groups) number of requests.
        group_sums: component -> (windows, groups), s.
    """

    requests: Floats
    edges: Floats
    sums: dict[str, Floats]
    groups: tuple[str | None, ...]
    group_requests: Floats
    group_sums: dict[str, Floats]


def blocks(rows: pl.LazyFrame, group: str, separate: Sequence[str]) -> Blocks:
    """Sum split rows by window and bin, without upgraded connections (101); at least one request must be left.

    Args:
        rows: as from ``split_rows``.
        group: a column.
        separate: its values with sums of their own; the others are combined as ``OTHER``; a missing value remains one.
    """
    served = without_upgraded(rows)
    response = pl.col("request_time")
    values = served.select(response.sort()).collect(engine="streaming").to_series().to_numpy()
    edges = bin_edges(values)
    start = pl.col("start")
    first, last = served.select(start.min(), start.max().alias("last")).collect(engine="streaming").row(0)
    span = max((last - first).total_seconds(), 1e-6)
    since = (start - pl.lit(first, INSTANT)).dt.total_microseconds() / (span * 1e6)
    window = (since * WINDOWS).floor().clip(0, WINDOWS - 1).cast(pl.Int32)
    place = pl.lit(pl.Series(edges[1:-1])).search_sorted(response, side="right")
    parts = [pl.col(name).fill_null(0.0).sum().alias(name) for name in COMPONENTS]
    placed = served.with_columns(window=window, bin=place.cast(pl.Int32))
    binned = placed.group_by("window", "bin").agg(pl.len().alias("requests"), *parts).collect(engine="streaming")
    value = pl.col(group).cast(pl.String)
    value = pl.when(value.is_null() | value.is_in(list(separate))).then(value).otherwise(pl.lit(OTHER))
    by_group = placed.with_columns(group=value).group_by("window", "group")
    grouped = by_group.agg(pl.len().alias("requests"), *parts).collect(engine="streaming")
    groups = grouped["group"].unique().sort(nulls_last=True).to_list()
    codes = pl.DataFrame({"group": groups, "code": range(len(groups))}, schema_overrides={"group": pl.String})
    grouped = grouped.join(codes, on="group", how="left", nulls_equal=True)
    count = len(edges) - 1
    return Blocks(
        requests=_table(binned, "bin", count, "requests"),
        edges=edges,
        sums={name: _table(binned, "bin", count, name) for name in COMPONENTS},
        groups=tuple(groups),
        group_requests=_table(grouped, "code", len(groups), "requests"),
        group_sums={name: _table(grouped, "code", len(groups), name) for name in COMPONENTS},
    )


def bin_edges(ordered: Floats) -> Floats:
    """Return edges of bins for values (at least one) in ascending order: fine in the middle, finer in the tail.

    Two edges at least; values that are all alike lie in one bin of no width.
    """
    even = np.linspace(0, len(ordered) - 1, min(LINEAR, len(ordered))).round().astype(np.int64)
    edges = np.unique(ordered[np.union1d(even, exceeding_ranks(len(ordered), TAIL))])
    return edges if len(edges) > 1 else np.repeat(edges, 2)


def resampled_windows(seed: int, resamples: int = RESAMPLES) -> Floats:
    """Return (resamples, windows): how often each window is in each resample; blocks wrap around at the end."""
    rng = np.random.default_rng(seed)
    begins = rng.integers(0, WINDOWS, size=(resamples, WINDOWS // BLOCK))
    drawn = (begins[:, :, None] + np.arange(BLOCK)) % WINDOWS
    weights = np.zeros((resamples, WINDOWS))
    np.add.at(weights, (np.arange(resamples)[:, None, None], drawn), 1.0)
    return weights


def quantiles_of(blocks: Blocks, weights: Floats, levels: Sequence[float]) -> Floats:
    """Return (resamples, levels): quantiles of the response time, linear within a bin, s."""
    below = np.cumsum(weights @ blocks.requests, axis=1)
    rows = np.arange(len(weights))
    values = np.empty((len(weights), len(levels)))
    for column, level in enumerate(levels):
        target = level * below[:, -1]
        place = np.minimum((below < target[:, None]).sum(axis=1), below.shape[1] - 1)
        before = np.where(place > 0, below[rows, np.maximum(place - 1, 0)], 0.0)
        part = (target - before) / np.maximum(below[rows, place] - before, 1e-12)
        values[:, column] = blocks.edges[place] + part * (blocks.edges[place + 1] - blocks.edges[place])
    return values


def tail_means(blocks: Blocks, weights: Floats, level: float) -> dict[str, Floats]:
    """Return component -> (resamples) its mean over the slowest 1 - level; the bin at the border counts in part."""
    requests = weights @ blocks.requests
    target = (1 - level) * requests.sum(axis=1, keepdims=True)
    beyond = np.cumsum(requests[:, ::-1], axis=1)[:, ::-1] - requests
    share = np.clip((target - beyond) / np.maximum(requests, 1e-12), 0, 1)
    whole = np.maximum((share * requests).sum(axis=1), 1e-12)
    return {name: (share * (weights @ sums)).sum(axis=1) / whole for name, sums in blocks.sums.items()}


def _table(table: pl.DataFrame, across: str, count: int, value: str) -> Floats:
    sums = np.zeros((WINDOWS, count))
    sums[table["window"].to_numpy(), table[across].to_numpy()] = table[value].to_numpy()
    return sums
