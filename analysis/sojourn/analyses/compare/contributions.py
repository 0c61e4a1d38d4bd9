"""Contribution of each group to a change of the mean: Kitagawa's decomposition (1955).

For each group, the change of its share of the requests (mix) and the change of its own mean (within), either weighted
by the average of both sides. Summed over groups they are the change of the mean, exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from sojourn.model.arrays import Floats
from sojourn.model.components import COMPONENTS
from sojourn.sources.frame_measures import without_upgraded
from sojourn.timeline.time_blocks import LEVEL, Blocks


@dataclass(frozen=True)
class GroupChange:
    """The contribution of one group to the change of the mean, s; contributions of all groups sum to the change.

    Attributes:
        name: the group's value.
        requests: number of requests, (a, b).
        share: share of all requests, (a, b).
        mean: mean response time, (a, b); None without requests.
        mix: contribution of the change of its share.
        within: component -> contribution of the change of its mean.
        low, high: 95 % interval of the contribution.
    """

    name: str | None
    requests: tuple[int, int]
    share: tuple[float, float]
    mean: tuple[float | None, float | None]
    mix: float
    within: dict[str, float]
    low: float
    high: float

    @property
    def contribution(self) -> float:
        """The sum of mix and within."""
        return self.mix + math.fsum(self.within.values())


def contributions(a: Blocks, b: Blocks, weights_a: Floats, weights_b: Floats) -> list[GroupChange]:
    """Return the contributions of the groups of both sides, the largest first.

    The weights are (1 + resamples, windows): all ones first, then the resamples.
    """
    names = list(dict.fromkeys((*a.groups, *b.groups)))
    point = _decomposed(_by_group(a, names, weights_a[:1]), _by_group(b, names, weights_b[:1]))
    again = _decomposed(_by_group(a, names, weights_a[1:]), _by_group(b, names, weights_b[1:]))
    low, high = np.quantile(again["mix"] + again["whole"], [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    rows = []
    for i, name in enumerate(names):
        requests = tuple(int(side[0, i]) for side in point["requests"])
        rows.append(
            GroupChange(
                name=name,
                requests=requests,  # type: ignore[arg-type]
                share=tuple(float(side[0, i]) for side in point["share"]),  # type: ignore[arg-type]
                mean=tuple(  # type: ignore[arg-type]
                    float(side[0, i]) if count else None for side, count in zip(point["mean"], requests, strict=True)
                ),
                mix=float(point["mix"][0, i]),
                within={part: float(point["within"][part][0, i]) for part in COMPONENTS},
                low=float(low[i]),
                high=float(high[i]),
            )
        )
    return sorted(rows, key=lambda group: -abs(group.contribution))


def _by_group(side: Blocks, names: list[str | None], weights: Floats) -> tuple[Floats, dict[str, Floats]]:
    """Return requests and component sums of one side, each (resamples, groups)."""
    columns = [names.index(name) for name in side.groups]

    def spread(table: Floats) -> Floats:
        sums = np.zeros((len(weights), len(names)))
        sums[:, columns] = weights @ table
        return sums

    return spread(side.group_requests), {part: spread(sums) for part, sums in side.group_sums.items()}


def _decomposed(a: tuple[Floats, dict[str, Floats]], b: tuple[Floats, dict[str, Floats]]) -> dict[str, Any]:
    requests = a[0], b[0]
    share = tuple(side / np.maximum(side.sum(axis=1, keepdims=True), 1e-12) for side in requests)
    there = tuple(side > 0 for side in requests)
    means: list[dict[str, Floats]] = [{}, {}]
    for part in COMPONENTS:
        one, other = (sums[part] / np.maximum(count, 1e-12) for count, sums in (a, b))
        # A group of one side only has no change within: it appeared or disappeared.
        means[0][part], means[1][part] = np.where(there[0], one, other), np.where(there[1], other, one)
    whole = tuple(np.sum(list(side.values()), axis=0) for side in means)
    between = (whole[0] + whole[1]) / 2
    # Relative to the mean of all: a slow group that appears raises it, a fast one lowers it.
    level = ((share[0] + share[1]) / 2 * between).sum(axis=1, keepdims=True)
    within = {part: (share[0] + share[1]) / 2 * (means[1][part] - means[0][part]) for part in COMPONENTS}
    return {
        "requests": requests,
        "share": share,
        "mean": whole,
        "mix": (share[1] - share[0]) * (between - level),
        "within": within,
        "whole": np.sum(list(within.values()), axis=0),
    }


def largest_groups(sides: Sequence[pl.LazyFrame], group: str, limit: int) -> tuple[list[str], int]:
    """Return the values with the most seconds on both sides together, at most ``limit``, and their total number."""
    seconds = [
        without_upgraded(rows).group_by(pl.col(group).cast(pl.String).alias("group")).agg(pl.col("request_time").sum())
        for rows in sides
    ]
    table = (
        pl.concat(seconds)
        .group_by("group")
        .agg(pl.col("request_time").sum())
        .sort("request_time", "group", descending=[True, False], nulls_last=True)
        .collect(engine="streaming")
    )
    return table["group"].drop_nulls().head(limit).to_list(), len(table)
