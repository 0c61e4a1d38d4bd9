"""Pauses of all workers at once: a garbage collector that stops the world, a suspended host.

In a pause no worker starts or ends anything, although requests wait and workers look free. At its end, all these
workers start a request at once. Where something else holds workers, they become free one by one.
"""

from __future__ import annotations

import numpy as np

from sojourn.model.arrays import Floats

Intervals = tuple[Floats, Floats]

SHORTEST, MEDIANS = 0.1, 8  # s, and median gaps: gaps between events that are longer may be pauses
FEWEST = 3  # pauses after which two requests or more could start at once
AT_ONCE, MOSTLY = 0.005, 0.8  # s; share of these pauses after which they did
TOGETHER, TIMES = 0.002, 3  # s; how many times as often as a little later
WAITS = 0.002  # s before the end of a pause: a request that arrived earlier waits


def pauses_of(arrival: Floats, begin: Floats, end: Floats, workers: int) -> Intervals:
    """Return begin and end of the pauses at a backend, s; none where workers do not start at once after them.

    ``begin``, ``end``: when each request starts, and when its worker is free, s.
    """
    starts, ends, arrivals = np.sort(begin), np.sort(end), np.sort(arrival)
    events = np.unique(np.concatenate([starts, ends]))
    gaps = np.diff(events)
    none = np.empty(0), np.empty(0)
    if not len(gaps):
        return none
    long = gaps > max(SHORTEST, MEDIANS * float(np.median(gaps)))
    since, until = events[:-1][long], events[1:][long]
    started = np.searchsorted(starts, until, "left")
    waiting = np.searchsorted(arrivals, until - WAITS, "right") - started
    free = workers - (started - np.searchsorted(ends, until, "left"))
    possible = np.minimum(waiting, free)
    # Only gaps in which a request waited beside a worker that looked free.
    stood = possible >= 1
    several = possible >= 2
    at_once = np.searchsorted(starts, until + AT_ONCE, "right") - started >= possible
    if several.sum() < FEWEST or at_once[several].mean() < MOSTLY:
        return none
    return since[stood & at_once], until[stood & at_once]


def overlap_with(pauses: Intervals, since: Floats, until: Floats) -> Floats:
    """Return how long each interval from ``since`` to ``until`` lies in pauses, s; 0 where an end is not known."""
    begin, end = pauses
    if not len(begin):
        return np.zeros(len(since))
    spent = np.append(0.0, np.cumsum(end - begin))

    def paused_until(instants: Floats) -> Floats:
        before = np.searchsorted(begin, instants, "right")
        last = np.maximum(before - 1, 0)
        inside = np.where(before > 0, np.minimum(instants, end[last]) - begin[last], 0.0)
        return spent[last] * (before > 0) + inside

    return np.maximum(np.nan_to_num(paused_until(until) - paused_until(since)), 0.0)


def are_together(instants: Floats) -> bool:
    """Return whether instants come together more often than by chance: something lets several workers go at once."""
    gaps = np.diff(np.sort(instants))
    count = [int(((gaps >= step * TOGETHER) & (gaps < (step + 1) * TOGETHER)).sum()) for step in range(3)]
    return count[0] > FEWEST + TIMES * max(count[1:])
