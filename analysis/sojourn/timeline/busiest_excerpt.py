"""The few requests around the deepest queue, to be drawn one by one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import numpy as np
import numpy.typing as npt
import polars as pl

from sojourn.timeline.request_timelines import RequestTimelines, timelines_of_visits
from sojourn.timeline.steps import Steps
from sojourn.timeline.visits import Visits

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

BEFORE = 2 / 3  # of the requests drawn that may come before the queue was deepest
CARRIED = 1 / 4  # of them that may have come before the first of the others, and were there still
AFTER = 0.5  # of the time in which they arrive: so long after the last arrival at the most


@dataclass(frozen=True)
class Scene:
    """Some requests out of many.

    Attributes:
        timelines: of these requests; their numbers are those among all.
        begin, end: from when to when it is drawn; what was before or goes on after is cut off.
        requests: how many went to a backend in all.
    """

    timelines: RequestTimelines
    begin: datetime
    end: datetime
    requests: int

    @property
    def whole(self) -> bool:
        """Whether all requests are in it."""
        return len(self.timelines.table) == self.requests


def scene_of(excerpt: Visits, most: int, *, one_backend: bool = False) -> Scene:
    """All visits, or ``most`` of them around the instant at which the most requests waited.

    Args:
        visits: read with the columns ``sojourn.timeline.request_timelines.READ``.
        most: so many at most.
        one_backend: only those of the backend whose queue was deepest; ``requests`` and numbers are then its own.

    Raises:
        SojournError: there is no visit.
    """
    leave = np.where(np.isnan(excerpt.wait_end), excerpt.ended, excerpt.wait_end)
    if one_backend and len(excerpt.backends) > 1:
        codes = range(len(excerpt.backends))
        deepest = max(codes, key=lambda code: _most(excerpt.arrival, leave, excerpt.at_backend[code]))
        members = excerpt.at_backend[deepest]
        excerpt, leave = _some(excerpt, members), leave[members]
    gone = np.fmax(leave, excerpt.busy_end)
    kept, first = _around(excerpt.arrival, leave, gone, most)
    timelines = timelines_of_visits(_some(excerpt, kept))
    numbered = timelines.table.with_columns(number=pl.Series(kept + 1, dtype=pl.Int64))
    begin, last = float(excerpt.arrival[first]), float(excerpt.arrival[kept[-1]])
    end = float(gone[kept].max())
    if len(kept) < len(excerpt):
        end = min(end, last + AFTER * max(last - begin, 1e-3))
    return Scene(
        timelines=replace(timelines, table=numbered),
        begin=excerpt.base + timedelta(seconds=begin),
        end=excerpt.base + timedelta(seconds=end),
        requests=len(excerpt),
    )


def _most(begin: Floats, end: Floats, which: Ints) -> int:
    """The most of some intervals that hold at one time."""
    return int(Steps.of(begin[which], end[which]).level.max(initial=0))


def _around(arrival: Floats, leave: Floats, gone: Floats, most: int) -> tuple[Ints, int]:
    """Indices of at most ``most`` requests, ascending, and which of them is the first that arrived in the picture."""
    count = len(arrival)
    if count <= most:
        return np.arange(count), 0
    steps = Steps.of(arrival, leave)
    deepest = int(steps.level.argmax()) if len(steps.level) else 0
    at = float(steps.at[deepest]) if len(steps.level) else float(arrival[0])
    position = int(np.searchsorted(arrival, at, "right")) - 1
    # From an empty queue; the first request drawn shows what came before.
    empty = np.flatnonzero(steps.level[:deepest] == 0)
    begun = int(np.searchsorted(arrival, steps.at[empty[-1]], "right")) if len(empty) else 0
    first = min(max(min(begun, position), position - int(BEFORE * most), 0), count - 1)
    there = np.flatnonzero((arrival < arrival[first]) & (gone > arrival[first]))
    carried = np.sort(there[np.argsort(leave[there], kind="stable")[: int(CARRIED * most)]])
    last = min(first + most - len(carried), count)
    return np.concatenate([carried, np.arange(first, last)]).astype(np.int64), first


def _some(visits: Visits, kept: Ints) -> Visits:
    """Some of the visits."""
    return replace(
        visits,
        arrival=visits.arrival[kept],
        wait_end=visits.wait_end[kept],
        busy_start=visits.busy_start[kept],
        busy_end=visits.busy_end[kept],
        backend=visits.backend[kept],
        frame=visits.frame[kept],
    )
