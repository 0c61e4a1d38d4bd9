"""Which groups a change of the mean comes from: Kitagawa's decomposition (1955).

For each group, the change of its share of the requests (mix) and the change of its own mean (within), either weighted
by the average of both sides. Summed over groups they are the change of the mean, exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sojourn.model.components import COMPONENTS
from sojourn.sources.frame_measures import without_upgraded
from sojourn.timeline.time_blocks import LEVEL, Blocks

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class GroupChange:
    """What one group contributes to the change of the mean, s. ``mix`` + ``within`` summed over groups are the change.

    Attributes:
        name: the group's value. requests, share, mean: (a, b).
        within: by component; it sums to the group's within.
        low, high: of mix + within.
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
        """Mix and within."""
        return self.mix + math.fsum(self.within.values())


def contributions(a: Blocks, b: Blocks, weights_a: Floats, weights_b: Floats) -> list[GroupChange]:
    """Contributions of every group of either side, the largest first.

    Args:
        a, b: sums of the sides.
        weights_a, weights_b: (1 + resamples, windows): all ones first, then the resamples.
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
    """Requests and component sums, (resamples, groups), of one side."""
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
        # A group that is on one side only has not changed within: it came, or went.
        means[0][part], means[1][part] = np.where(there[0], one, other), np.where(there[1], other, one)
    whole = tuple(np.sum(list(side.values()), axis=0) for side in means)
    between = (whole[0] + whole[1]) / 2
    # Against the mean of all: a group that is slower than most raises it by coming, one that is faster lowers it.
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
    """The values with the most seconds on both sides together, at most ``limit``, and how many there are in all."""
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
