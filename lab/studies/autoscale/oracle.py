"""The yardstick: the fewest workers, window by window, with the load's arrivals and service times known beforehand.

Each window is replayed, first come first served, after the windows before it with their workers. It gets the smallest
number with which the objective holds for its own requests. An autoscaler cannot do as well: it learns of a rise from
the requests that came with it.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Objective:
    """An objective: `share` of the requests wait at most `threshold` seconds."""

    threshold: float
    share: float

    def holds(self, met: int, requests: int) -> bool:
        """Return whether it holds if `met` of the requests waited no longer; without requests it does."""
        return met >= self.share * requests - 1e-9


def window_edges(begin: float, end: float, width: float) -> list[float]:
    """Return the edges of windows of about `width` seconds, all of the same length, from `begin` to `end`."""
    count = max(1, round((end - begin) / width))
    return [begin + (end - begin) * number / count for number in range(count + 1)]


def waits_of(
    arrivals: Sequence[float], services: Sequence[float], free: Sequence[float]
) -> tuple[list[float], list[float]]:
    """Return the waits of requests that are served first come, first served, and when the workers are free after them.

    Args:
        arrivals: instants, sorted, s.
        services: their service times, s.
        free: the instant at which each worker is free.
    """
    busy = list(free)
    heapq.heapify(busy)
    waits = []
    for arrival, service in zip(arrivals, services, strict=True):
        start = max(arrival, busy[0])
        heapq.heapreplace(busy, start + service)
        waits.append(start - arrival)
    return waits, busy


def workers_needed(
    arrivals: NDArray[np.float64],
    services: NDArray[np.float64],
    edges: Sequence[float],
    objective: Objective,
    most: int,
) -> list[int]:
    """Return the fewest workers of each window, at least 1 and at most `most`.

    Args:
        arrivals: instants, sorted; those before the first edge are served by `most` workers.
        services: their service times, s.
        edges: of the windows.
        objective: must hold in each window for the requests that arrive in it.
        most: the largest number; it is used where none holds the objective.
    """
    places = np.searchsorted(arrivals, edges)
    _, free = waits_of(arrivals[: places[0]].tolist(), services[: places[0]].tolist(), [edges[0] - 1e9] * most)
    needed = []
    for (first, last), begin in zip(pairwise(places), edges, strict=False):
        inside, theirs = arrivals[first:last].tolist(), services[first:last].tolist()
        for workers in range(1, most + 1):
            waits, after = waits_of(inside, theirs, started_with(free, workers, begin))
            if workers == most or objective.holds(sum(wait <= objective.threshold for wait in waits), len(waits)):
                break
        free = after
        needed.append(workers)
    return needed


def started_with(free: Sequence[float], workers: int, begin: float) -> list[float]:
    """Return when each of `workers` workers is free, after a change of their number at `begin`.

    A worker that is removed finishes its request first: those that are free soonest go. New workers are free at once.
    """
    remaining = sorted(free)[max(0, len(free) - workers) :]
    return remaining + [begin] * (workers - len(remaining))
