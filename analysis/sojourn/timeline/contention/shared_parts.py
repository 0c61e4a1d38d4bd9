"""The parts of services that may share a resource, and how many are in progress at each instant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sojourn.model.arrays import Floats, Ints
from sojourn.queueing.speed_laws import Law
from sojourn.timeline.visits import Visits

MOST_IN_PROGRESS = 512


@dataclass(frozen=True)
class SharedParts:
    """Services of one resource: n of them.

    Attributes:
        gaps: s, 2 n, from each begin or end, in order, to the next one.
        number: in progress during each gap, at most ``most``.
        at_begin, at_end: index of the begin and of the end of each service among them.
        lasted: s, n.
        most: highest number; more seem to be in progress only because of the steps of the clocks.
    """

    gaps: Floats
    number: Ints
    at_begin: Ints
    at_end: Ints
    lasted: Floats
    most: int

    @classmethod
    def of(cls, begin: Floats, end: Floats, most: int | None = None) -> SharedParts:
        """Order begins and ends (s, n each); ``most``: how many can be in progress; None: as many as are."""
        n = len(begin)
        instants = np.concatenate([begin, np.maximum(end, begin)])
        # At one instant services end before others begin, but not before their own begin.
        order = np.lexsort((np.where(np.arange(2 * n) < n, 1, 0), instants))
        empty = np.flatnonzero(end <= begin)
        place = np.empty(2 * n, np.int64)
        place[order] = np.arange(2 * n)
        if len(empty):
            first, last = np.minimum(place[empty], place[empty + n]), np.maximum(place[empty], place[empty + n])
            place[empty], place[empty + n] = first, last
            order[place] = np.arange(2 * n)
        number = np.cumsum(np.where(order < n, 1, -1))
        limit = min(int(number.max(initial=0)), MOST_IN_PROGRESS)
        limit = limit if most is None else min(limit, most)
        ordered = instants[order]
        return cls(
            np.append(np.diff(ordered), 0.0), np.clip(number, 0, limit), place[:n], place[n:], end - begin, limit
        )

    @classmethod
    def joined(cls, each: Sequence[SharedParts]) -> SharedParts:
        """Return the services of several resources that have the same law, one resource after the other."""
        first = np.cumsum([0, *(len(parts.gaps) for parts in each)])[:-1].tolist()
        return cls(
            np.concatenate([parts.gaps for parts in each]),
            np.concatenate([parts.number for parts in each]),
            np.concatenate([parts.at_begin + start for parts, start in zip(each, first, strict=True)]),
            np.concatenate([parts.at_end + start for parts, start in zip(each, first, strict=True)]),
            np.concatenate([parts.lasted for parts in each]),
            max(parts.most for parts in each),
        )

    def demands(self, speeds: Floats) -> Floats:
        """Return how long each service would last alone, s: the integral of the speed over it."""
        progress = np.concatenate([[0.0], np.cumsum(self.gaps * speeds[self.number])[:-1]])
        return progress[self.at_end] - progress[self.at_begin]

    def speed_at_end(self, speeds: Floats) -> Floats:
        """Return the speed of each service just before its end."""
        return speeds[np.maximum(self.number[self.at_end - 1], 1)]

    def demands_under(self, law: Law) -> Floats:
        """Return how long each service would last alone under a law, s."""
        return self.demands(law.speeds(self.most))


def most_in_progress(visits: Visits, backends: Sequence[int]) -> int | None:
    """Return how many services of some backends can be in progress; None: there is no limit."""
    if not visits.workers.several_at_once.isdisjoint(backends):
        return None
    return int(visits.workers.count[list(backends)].sum())
