"""Count the intervals that hold, as a function of time: up where one begins, down where one ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sojourn.model.arrays import Floats, Ints


@dataclass(frozen=True)
class Steps:
    """The number of intervals that hold: ``level[k]`` from ``at[k]`` to ``at[k + 1]``, 0 before and after."""

    at: Floats
    level: Ints

    @classmethod
    def of(cls, begin: Floats, end: Floats) -> Steps:
        """Count the intervals that hold; intervals of no length or with an unknown end never hold."""
        lasting = end > begin
        if not lasting.all():
            begin, end = begin[lasting], end[lasting]
        count = len(begin)
        at = np.concatenate([begin, end])
        order = np.argsort(at, kind="stable")
        level = np.cumsum(np.where(order < count, np.int8(1), np.int8(-1)), dtype=np.int64)
        at = at[order]
        # Of several changes at one instant only the last counts: a wait has a positive length.
        final = np.append(at[1:] > at[:-1], True) if len(at) else np.array([], bool)
        return cls(at[final], level[final])

    def emptied_before(self, instants: Floats) -> Floats:
        """Return when, until each instant, the number became 0 for the last time; -inf where it had not."""
        emptied = np.append(-np.inf, self.at[self.level == 0])
        return emptied[np.searchsorted(emptied, instants, "right") - 1]

    @cached_property
    def _area(self) -> Floats:
        """The integral from each instant to the next one, s."""
        return self.level * np.diff(self.at, append=self.at[-1])

    def between(self, edges: Floats) -> tuple[Floats, Ints]:
        """Return the integral (s) and the maximum between consecutive edges, which ascend."""
        if not len(self.at):
            return np.zeros(len(edges) - 1), np.zeros(len(edges) - 1, np.int64)
        place = np.searchsorted(self.at, edges, "right") - 1
        level = np.where(place >= 0, self.level[place], 0)
        first, last = place[:-1], place[1:]
        changed = last > first
        following = self.at[np.where(changed, first + 1, 0)]
        # Until the first change, between changes, and from the last one on.
        spent = level[:-1] * (np.where(changed, following, edges[1:]) - edges[:-1])
        spent += np.where(changed, level[1:] * (edges[1:] - self.at[last]), 0.0)
        most = np.where(edges[1:] > edges[:-1], level[:-1], 0)
        most = np.where(changed & (edges[1:] > self.at[last]), np.maximum(most, level[1:]), most)
        several = last > first + 1
        bounds = np.column_stack([first[several] + 1, last[several]]).ravel()
        if len(bounds):
            spent[several] += np.add.reduceat(self._area, bounds)[::2]
            most[several] = np.maximum(most[several], np.maximum.reduceat(self.level, bounds)[::2])
        return spent, most


@dataclass(frozen=True)
class Together:
    """The sum of several counts over the same time."""

    parts: Sequence[Steps]

    def between(self, edges: Floats) -> tuple[Floats, Ints]:
        """Return the integral (s), and an upper bound of the maximum, between consecutive edges."""
        spent, most = np.zeros(len(edges) - 1), np.zeros(len(edges) - 1, np.int64)
        for part in self.parts:
            seconds, largest = part.between(edges)
            spent += seconds
            most += largest
        return spent, most
