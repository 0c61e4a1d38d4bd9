"""Count the intervals that hold, as a function of time: up where one begins, down where one ends."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sojourn.timeline.classes import summed

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Steps:
    """The number of intervals that hold: ``level[k]`` from ``at[k]`` to ``at[k + 1]``, 0 before and after."""

    at: Floats
    level: Ints

    @classmethod
    def of(cls, begin: Floats, end: Floats) -> Steps:
        """Count the intervals that hold; intervals of no length or with an unknown end never hold."""
        kept = end > begin
        at = np.concatenate([begin[kept], end[kept]])
        order = np.argsort(at, kind="stable")
        change = np.concatenate([np.ones(int(kept.sum()), np.int64), np.full(int(kept.sum()), -1, np.int64)])
        at, level = at[order], np.cumsum(change[order])
        # Of several changes at one instant only the last counts: a wait has a positive length.
        final = np.append(at[1:] > at[:-1], True) if len(at) else np.array([], bool)
        return cls(at[final], level[final].astype(np.int64))

    def between(self, edges: Floats) -> tuple[Floats, Ints]:
        """Return the integral (s) and the maximum between consecutive edges."""
        at = np.concatenate([self.at, edges])
        order = np.argsort(at, kind="stable")
        at = at[order]
        reached = np.searchsorted(self.at, at, "right") - 1
        level = np.where(reached >= 0, self.level[np.maximum(reached, 0)], 0) if len(self.at) else np.zeros_like(at)
        length = np.diff(at, append=at[-1])
        window = np.searchsorted(edges, at, "right") - 1
        inside = (window >= 0) & (window < len(edges) - 1) & (length > 0)
        most = np.zeros(len(edges) - 1, np.int64)
        np.maximum.at(most, window[inside], level[inside].astype(np.int64))
        return summed(window[inside], (level * length)[inside], len(edges) - 1), most
