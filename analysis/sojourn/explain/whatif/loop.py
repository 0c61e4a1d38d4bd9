"""Closed loops: clients who send their next request when the last one was answered.

A faster system then draws more load from the same clients. Which answer let a request come is seldom logged, so it is
matched: every request takes the earliest answer before it that let nobody come yet, of its own client where clients can
be told apart. The time between is the think time, and is kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sojourn.explain.whatif.workload import Floats, Ints, Workload


@dataclass(frozen=True)
class Loop:
    """Who follows whom; n each.

    Attributes:
        previous: row of the workload whose answer let this one come; -1: it came by itself.
        think: s between.
    """

    previous: Ints
    think: Floats

    @property
    def linked(self) -> float:
        """Share of the requests that follow another."""
        return float((self.previous >= 0).mean()) if len(self.previous) else 0.0

    def among(self, rows: Ints, load: float = 1.0) -> tuple[Ints, Floats]:
        """The same for some rows only, numbered anew; ``load``: think times are so many times shorter."""
        number = np.full(len(self.previous) + 1, -1, np.int64)
        number[rows] = np.arange(len(rows))
        return number[self.previous[rows]], np.nan_to_num(self.think[rows]) / load


def loop_of(workload: Workload) -> Loop:
    """The loop behind a workload, upstream by upstream."""
    found = workload.found
    n = len(workload)
    previous, think = np.full(n, -1, np.int64), np.zeros(n)
    pool = found.pool[found.backend] if n else np.empty(0, np.int32)
    answered = found.arrival + np.nan_to_num(found.wait) + workload.head
    given_up = np.isnan(found.wait)  # nginx answered when it lost its patience
    answered[given_up] = found.arrival[given_up] + (workload.response - workload.before)[given_up]
    for number in range(len(found.pools)):
        rows = np.flatnonzero(pool == number)
        ends = np.sort(answered[rows], kind="stable")
        who = rows[np.argsort(answered[rows], kind="stable")]
        # The k-th to follow anybody takes the k-th answer; none comes before what it follows.
        taken = 0
        for row in rows:
            if taken < len(ends) and ends[taken] <= found.arrival[row] and who[taken] < row:
                previous[row], think[row] = who[taken], found.arrival[row] - ends[taken]
                taken += 1
    return Loop(previous, think)
