"""Assign intervals to lanes, so that the intervals of a lane do not overlap: the lowest free lane for each."""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np

from sojourn.model.arrays import Ints
from sojourn.model.compilation import compiled_if_installed


def lowest_free(begin: Ints, end: Ints, most: int | None = None) -> Ints:
    """Return a lane from 0 for each interval [begin, end): the lowest that is free at its begin.

    Args:
        begin: ascending.
        end: after its begin.
        most: number of lanes; an interval for which none is free gets -1. None: as many as are needed.
    """
    lanes = np.full(len(begin), -1, np.int64)
    _assign(begin, end, len(begin) if most is None else most, lanes)
    return lanes


@compiled_if_installed
def _assign(begin, end, most, lanes):  # type: ignore[no-untyped-def]
    busy = [(0, 0) for _ in range(0)]  # end, lane
    free = [0 for _ in range(0)]
    count = 0
    for k in range(len(begin)):
        while len(busy) > 0 and busy[0][0] <= begin[k]:
            heappush(free, heappop(busy)[1])
        if len(free) > 0:
            lane = heappop(free)
        elif count < most:
            lane = count
            count += 1
        else:
            continue
        heappush(busy, (end[k], lane))
        lanes[k] = lane


def lanes_of_groups(group: Ints, begin: Ints, end: Ints) -> Ints:
    """Return a lane from 0 of its group for each interval; 0 in a group without overlaps.

    Args:
        group: code of each interval, from 0.
        begin: at least 0.
        end: after its begin.
    """
    lane = np.zeros(len(group), np.int64)
    order = np.lexsort((begin, group))
    for members in np.split(order, np.flatnonzero(np.diff(group[order])) + 1):
        if (begin[members[1:]] < np.maximum.accumulate(end[members])[:-1]).any():
            lane[members] = lowest_free(begin[members], end[members])
    return lane
