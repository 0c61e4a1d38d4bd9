"""Closed loops: clients that send their next request after the answer to the last one.

A faster system then receives more load from the same clients. Which answer precedes a request is seldom logged, so it
is matched: every request follows the earliest preceding answer without a match, of the same client if clients can be
identified. The time between is the think time, and is kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sojourn.analyses.whatif.workload import Workload
from sojourn.model.arrays import Floats, Ints
from sojourn.model.components import GIVEN_UP_STATUSES
from sojourn.timeline.classes import small_codes

FEWEST = 10  # requests of a client
ENOUGH = 20.0  # expected requests of clients that have another one in the system
SELDOM = 0.05  # of these
MUCH = 0.05  # of the clients' time
TICK = 0.001  # s: nginx's clock


@dataclass(frozen=True)
class ClosedLoop:
    """The matches of requests to preceding answers; n each.

    Attributes:
        previous: row of the workload whose answer precedes this request; -1: none, it arrives as recorded.
        think: s between that answer and this request.
    """

    previous: Ints
    think: Floats

    @property
    def linked(self) -> float:
        """Return the share of the requests that follow another."""
        return float((self.previous >= 0).mean()) if len(self.previous) else 0.0

    def among(self, rows: Ints, load: float) -> tuple[Ints, Floats]:
        """Return ``previous`` and ``think`` of some rows, renumbered; think times are divided by ``load``."""
        number = np.full(len(self.previous) + 1, -1, np.int64)
        number[rows] = np.arange(len(rows))
        return number[self.previous[rows]], np.nan_to_num(self.think[rows]) / load


def closed_loop_of(workload: Workload) -> ClosedLoop:
    """Match each request of a workload to the answer it follows, within its upstream."""
    visits = workload.visits
    n = len(workload)
    previous, think = np.full(n, -1, np.int64), np.zeros(n)
    pool = visits.pool[visits.backend] if n else np.empty(0, np.int32)
    answered = visits.arrival + np.nan_to_num(visits.wait) + workload.head
    # nginx logs when it answered; of the requests that it abandoned, the app logs nothing.
    given_up = np.isnan(visits.wait) | np.isin(visits.rows["status"].to_numpy(), GIVEN_UP_STATUSES)
    answered[given_up] = visits.arrival[given_up] + (workload.response - workload.before)[given_up]
    client = workload.client
    group = pool.astype(np.int64) * (int(client.max(initial=0)) + 1) + client
    order = np.argsort(group, kind="stable")
    tail = workload.services - workload.head
    for rows in np.split(order, np.flatnonzero(np.diff(group[order])) + 1):
        ends = np.sort(answered[rows], kind="stable")
        by_end = rows[np.argsort(answered[rows], kind="stable")]
        # The k-th request that follows any answer follows the k-th answer, and never one after its own arrival.
        matched = 0
        for row in rows:
            if matched < len(ends) and ends[matched] <= visits.arrival[row] and by_end[matched] < row:
                # A replay counts from when the worker is free. A client may send sooner, while the worker streams or
                # tidies up; its think time is then 0.
                answer = by_end[matched]
                streamed = 0.0 if given_up[answer] else tail[answer]
                previous[row], think[row] = answer, max(visits.arrival[row] - ends[matched] - streamed, 0.0)
                matched += 1
    return ClosedLoop(previous, think)


def clients_wait(workload: Workload) -> bool:
    """Return whether clients send a request only after the answer to their last one, and spend much time waiting.

    A client whose requests do not depend on its answers sends some while one is under way: its rate times the time that
    it has a request in the system. If that is seen far more seldom than expected, clients wait. Where they wait for a
    small part of their time only, a faster system would receive hardly more requests.
    """
    begin = workload.visits.arrival - workload.before
    end = begin + workload.response
    client = workload.client
    order = np.argsort(begin, kind="stable")
    order = order[np.argsort(small_codes(client[order]), kind="stable")]
    begin, end, client = begin[order], np.maximum(end, begin)[order], client[order]
    first = np.flatnonzero(np.diff(client, prepend=-1))
    count = np.diff(np.append(first, len(client)))
    # The latest end so far of each client: instants of different clients are far apart.
    apart = client * (2 * float(end.max() - begin.min()) + 1.0)
    latest = np.maximum.accumulate(end + apart) - apart
    span = np.maximum.reduceat(latest, first) - begin[first]
    earlier = np.append(-np.inf, latest[:-1])
    earlier[first] = -np.inf
    present = np.add.reduceat(end - np.clip(earlier, begin, end), first)
    active = (count >= FEWEST) & (span > 0)
    if not active.any():
        return False
    expected = float((count * present / np.where(span > 0, span, 1.0))[active].sum())
    overlapping = float(np.add.reduceat((earlier > begin + TICK).astype(np.float64), first)[active].sum())
    much = float(present[active].sum()) > MUCH * float(span[active].sum())
    return much and expected > ENOUGH and overlapping < SELDOM * expected
