"""Closed loops: clients who send their next request when the last one was answered.

A faster system then draws more load from the same clients. Which answer let a request come is seldom logged, so it is
matched: every request takes the earliest answer before it that let nobody come yet, of its own client where clients can
be told apart. The time between is the think time, and is kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from sojourn.analyses.whatif.workload import GIVEN_UP, Floats, Ints, Workload


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
    # Nobody knows better than nginx when it answered, and of those it gave up on the app knows nothing at all.
    given_up = np.isnan(found.wait) | np.isin(found.frame["status"].to_numpy(), GIVEN_UP)
    answered[given_up] = found.arrival[given_up] + (workload.response - workload.before)[given_up]
    client = _clients(workload)
    group = pool.astype(np.int64) * (int(client.max(initial=0)) + 1) + client
    order = np.argsort(group, kind="stable")
    tail = workload.services - workload.head
    for rows in np.split(order, np.flatnonzero(np.diff(group[order])) + 1):
        ends = np.sort(answered[rows], kind="stable")
        who = rows[np.argsort(answered[rows], kind="stable")]
        # The k-th to follow anybody takes the k-th answer; none comes before what it follows.
        taken = 0
        for row in rows:
            if taken < len(ends) and ends[taken] <= found.arrival[row] and who[taken] < row:
                # A replay counts from when the worker is free. A client may be back sooner, while it streams or tidies
                # up; it then comes at once.
                streamed = 0.0 if given_up[who[taken]] else tail[who[taken]]
                previous[row], think[row] = who[taken], max(found.arrival[row] - ends[taken] - streamed, 0.0)
                taken += 1
    return Loop(previous, think)


def _clients(workload: Workload) -> Ints:
    """A number for each client: its address where the log has several, otherwise its connection; 0 for unknown ones.

    Connections that serve one request each tell nobody apart.
    """
    frame = workload.found.frame
    for name in ("remote_addr", "connection"):
        if name in frame.columns and 1 < frame[name].n_unique() <= len(frame) / 2:
            return frame[name].cast(pl.String).rank("dense").fill_null(0).to_numpy().astype(np.int64)
    return np.zeros(len(workload), np.int64)
