"""Stretches of a log without a line, although there are many before and after.

Either lines are missing (a rotation by copying, a disk that ran full, a shipper that lost a file), or there was no
traffic. A log does not tell which, and what is averaged over such a stretch is wrong in the first case.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sojourn.model.arrays import Floats
from sojourn.model.formatting import counted, duration

SHORTEST = 2.0  # s
EXPECTED = 50.0  # lines at the rate before or after, whichever is smaller
NEIGHBOURS = 200  # lines on each side that give this rate
FEWEST = 50
MICROSECOND = 1e-6  # s
STARTED = 0.5  # share of the expected requests that start meanwhile: then the backends paused, and no line is missing


@dataclass(frozen=True)
class Silence:
    """A stretch in which no request ended, s."""

    begin: float
    end: float

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.end - self.begin


def silences(arrived: Floats, ended: Floats) -> list[Silence]:
    """Return the silences of a log: ``arrived``, ``ended``: when each request did, s, in any order; NaN is left out."""
    ends = np.sort(ended[np.isfinite(ended)])
    gaps = np.flatnonzero(np.diff(ends) >= SHORTEST)
    if not len(gaps):
        return []
    starts = np.sort(arrived[np.isfinite(arrived)])
    stretches = []
    for gap in gaps.tolist():
        low, high = max(gap - NEIGHBOURS, 0), min(gap + 1 + NEIGHBOURS, len(ends) - 1)
        if gap - low < FEWEST or high - gap - 1 < FEWEST:
            continue
        before, after = ends[gap] - ends[low], ends[high] - ends[gap + 1]
        rate = min((gap - low) / max(before, MICROSECOND), (high - gap - 1) / max(after, MICROSECOND))
        expected = rate * (ends[gap + 1] - ends[gap])
        inside = np.searchsorted(starts, ends[gap + 1]) - np.searchsorted(starts, ends[gap], side="right")
        if expected >= EXPECTED and inside < STARTED * expected:
            stretches.append(Silence(float(ends[gap]), float(ends[gap + 1])))
    return stretches


def clause(stretches: Sequence[Silence]) -> str:
    """Return what was seen, as a clause."""
    longest = duration(max(each.seconds for each in stretches))
    times = longest if len(stretches) == 1 else f"up to {longest}, {counted(len(stretches), 'time')}"
    return (
        f"the log has no line for {times}, although many come before and after: some are missing, or there was no "
        "traffic"
    )
