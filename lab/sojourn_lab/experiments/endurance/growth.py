"""Growth of a figure that is sampled over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sojourn.model.statistics import slope

SETTLED = 1 / 3
"""The first part of the time, which does not count: caches fill, pools open."""

SHARE = 0.05
"""Growth over the rest, as a part of the level, that still passes for flat."""


@dataclass(frozen=True)
class Growth:
    """The course of a figure after it had settled, in its own unit.

    Attributes:
        level: the median.
        most: the largest of all samples.
        slope: per second, the median slope between any two samples (Theil 1950, Sen 1968): a spike does not move it.
        growth: slope times the time looked at.
        flat: it did not grow by ``SHARE`` of its level, or by less than what was allowed.
    """

    level: float
    most: float
    slope: float
    growth: float
    flat: bool


def growth_of(instants: Sequence[float], values: Sequence[float], allowed: float) -> Growth | None:
    """Return the growth of ``values`` after the first third of the time; None for fewer than four samples of the rest.

    Args:
        instants: of the samples, s, ascending.
        values: one for each.
        allowed: growth that is flat whatever the level.
    """
    time, value = np.asarray(instants, dtype=np.float64), np.asarray(values, dtype=np.float64)
    if len(time) < 4:
        return None
    late = time >= time[0] + SETTLED * (time[-1] - time[0])
    time, settled = time[late], value[late]
    if len(time) < 4:
        return None
    level, steep = float(np.median(settled)), slope(time, settled)
    growth = steep * float(time[-1] - time[0])
    return Growth(level, float(value.max()), steep, growth, growth < SHARE * level or growth < allowed)
