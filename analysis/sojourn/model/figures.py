"""The figures of a distribution: mean, exact quantiles, maximum. Light to import."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sojourn.model.arrays import Floats

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}
FIGURES = ("mean", *QUANTILES, "max")
Summary = dict[str, float | None]


def quantiles(values: Floats, levels: Sequence[float]) -> list[float | None]:
    """Return quantiles, linear between order statistics; None without values. Reorders ``values``."""
    if not len(values):
        return [None for _ in levels]
    places = [(len(values) - 1) * level for level in levels]
    values.partition(sorted({rank for place in places for rank in (math.floor(place), math.ceil(place))}))
    quantile_values: list[float | None] = []
    for place in places:
        below, above = values[math.floor(place)], values[math.ceil(place)]
        quantile_values.append(float(below + (above - below) * (place - math.floor(place))))
    return quantile_values


def summary(values: Floats) -> Summary:
    """Return mean, quantiles and maximum. Reorders ``values``."""
    if not len(values):
        return {"mean": None, **dict.fromkeys(QUANTILES), "max": None}
    mean, most = float(values.mean()), float(values.max())
    return {"mean": mean, **dict(zip(QUANTILES, quantiles(values, list(QUANTILES.values())), strict=True)), "max": most}
