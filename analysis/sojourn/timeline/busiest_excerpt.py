"""The busiest excerpt of a log: the requests around the deepest queue, to be drawn one by one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import numpy as np
import polars as pl

from sojourn.model.arrays import Floats, Ints
from sojourn.timeline.request_timelines import RequestTimelines, timelines_of_visits
from sojourn.timeline.steps import Steps
from sojourn.timeline.visits import Visits

BEFORE = 2 / 3  # of the requests: at most this part arrives before the queue is deepest
CARRIED = 1 / 4  # of the requests: at most this part is in system when the excerpt begins
AFTER = 0.5  # of the time between first and last arrival: the excerpt ends at most this long after the last arrival


@dataclass(frozen=True)
class Scene:
    """An excerpt of the requests.

    Attributes:
        timelines: timelines of the excerpt; requests are numbered among all.
        begin, end: the time window of the excerpt; timelines are clipped to it.
        requests: number of requests that went to a backend.
    """

    timelines: RequestTimelines
    begin: datetime
    end: datetime
    requests: int

    @property
    def whole(self) -> bool:
        """Whether all requests are in it."""
        return len(self.timelines.table) == self.requests


def scene_of(excerpt: Visits, most: int, *, one_backend: bool = False, waiting: Steps | None = None) -> Scene:
    """Return all visits, or ``most`` of them around the instant at which the most requests waited.

    Args:
        excerpt: visits with the columns ``sojourn.timeline.request_timelines.READ``.
        most: maximum number of requests.
        one_backend: only the backend with the deepest queue; its requests are numbered and counted alone.
        waiting: how many of all these requests wait; None: computed if it is needed.

    Raises:
        SojournError: there are no visits.
    """
    unknown = np.isnan(excerpt.wait_end)
    leave = np.where(unknown, excerpt.ended, excerpt.wait_end) if unknown.any() else excerpt.wait_end
    if one_backend and len(excerpt.backends) > 1:
        codes = range(len(excerpt.backends))
        at = excerpt.at_backend
        # Where no request waited, the backend with the most requests: another may have none.
        deepest = max(codes, key=lambda code: (_most(excerpt.arrival, leave, at[code]), len(at[code])))
        members = excerpt.at_backend[deepest]
        excerpt, leave, waiting = excerpt.at(members), leave[members], None
    gone = np.fmax(leave, excerpt.busy_end)
    chosen, first = _around(excerpt.arrival, leave, gone, most, waiting)
    timelines = timelines_of_visits(excerpt.at(chosen))
    numbered = timelines.table.with_columns(number=pl.Series(chosen + 1, dtype=pl.Int64))
    begin, last = float(excerpt.arrival[first]), float(excerpt.arrival[chosen[-1]])
    end = float(gone[chosen].max())
    if len(chosen) < len(excerpt):
        end = min(end, last + AFTER * max(last - begin, 1e-3))
    return Scene(
        timelines=replace(timelines, table=numbered),
        begin=excerpt.base + timedelta(seconds=begin),
        end=excerpt.base + timedelta(seconds=end),
        requests=len(excerpt),
    )


def _most(begin: Floats, end: Floats, which: Ints) -> int:
    """Return the largest number of the intervals that hold at one time."""
    return int(Steps.of(begin[which], end[which]).level.max(initial=0))


def _around(arrival: Floats, leave: Floats, gone: Floats, most: int, waiting: Steps | None) -> tuple[Ints, int]:
    """Return the indices of at most ``most`` requests, ascending, and the first of them that arrives in the excerpt."""
    count = len(arrival)
    if count <= most:
        return np.arange(count), 0
    steps = waiting or Steps.of(arrival, leave)
    deepest = int(steps.level.argmax()) if len(steps.level) else 0
    at = float(steps.at[deepest]) if len(steps.level) else float(arrival[0])
    position = int(np.searchsorted(arrival, at, "right")) - 1
    # The excerpt begins with an empty queue if it can.
    empty = np.flatnonzero(steps.level[:deepest] == 0)
    begun = int(np.searchsorted(arrival, steps.at[empty[-1]], "right")) if len(empty) else 0
    first = min(max(min(begun, position), position - int(BEFORE * most), 0), count - 1)
    there = np.flatnonzero((arrival < arrival[first]) & (gone > arrival[first]))
    carried = np.sort(there[np.argsort(leave[there], kind="stable")[: int(CARRIED * most)]])
    last = min(first + most - len(carried), count)
    return np.concatenate([carried, np.arange(first, last)]).astype(np.int64), first
