"""Counts of requests in front of the app, compared with the log of the same time.

What is counted and not in the log is of two kinds: connections that remain open (WebSockets, server-sent events, long
polls) with requests whose log is switched off, and requests that wait or hang for longer than all that have ended. A
request that has lasted for ``LONGEST_LAG`` is of the first kind. Of those that have not, one can know only where as
many were there before: then some have ended and others begun.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sojourn.export.live.ledger import Ledger
from sojourn.export.live.poller import Tick
from sojourn.model.arrays import Floats
from sojourn.queueing.live_staffing import since_restart

FEWEST = 5  # readings that are compared
LEAST = 1.0  # s of them
LATEST = 2.0  # s of them that say how many requests are in progress and not in the log
FEW_OPEN, SHARE_OPEN, SURE_OPEN = 2.0, 0.2, 3.0
"""By how much what is not in the log may grow by chance: requests, a share of those in progress by the log, and
standard deviations of the difference of two Poisson counts."""


@dataclass(frozen=True)
class Counts:
    """The counts of some sources together, over time; n readings.

    Attributes:
        time: unix s, n.
        arrived: requests that have begun so far, n, without the queries; None: a source does not say it.
        in_progress: requests, n.
        has_waiting: whether requests that wait for a worker are counted.
    """

    time: Floats
    arrived: Floats | None
    in_progress: Floats
    has_waiting: bool

    def __len__(self) -> int:
        return len(self.time)

    @property
    def restarted(self) -> int:
        """The first reading after a counter last fell."""
        return 0 if self.arrived is None else since_restart(self.arrived)

    @property
    def since(self) -> float:
        """Since when they are of the same counters, as far as one can know, unix s; inf: there are none."""
        if not len(self):
            return math.inf
        return float(self.time[self.restarted]) if self.restarted else -math.inf


def counts_of(ticks: Sequence[Tick], sources: Sequence[int]) -> Counts:
    """Return the sums over sources, by their positions, at the readings that all of them answered."""
    each = [
        (tick.time, *counts) for tick in ticks if None not in (counts := [_summand(tick, number) for number in sources])
    ]
    if not each:
        return Counts(np.empty(0), None, np.empty(0), has_waiting=True)
    table = np.array([(time, *map(sum, zip(*counts, strict=True))) for time, *counts in each], np.float64)
    time, arrived, in_progress, without = table.T
    return Counts(time, None if np.isnan(arrived).any() else arrived, in_progress, has_waiting=not without.any())


def _summand(tick: Tick, number: int) -> tuple[float, int, bool] | None:
    """Return what arrived at a source (NaN: unknown), is in progress, and whether it leaves out waiting requests."""
    count = tick.counts[number]
    if count is None:
        return None
    arrived = math.nan if count.arrived is None else count.arrived - count.has_query * tick.reads[number]
    return arrived, count.in_progress, not count.has_waiting


@dataclass(frozen=True)
class Reconciliation:
    """What is counted and not in the log.

    Attributes:
        beyond: requests in progress that remain open, or are not logged, the median of the last readings
            that can be compared; None: not known yet.
        open: those ``LONGEST_LAG`` before the log's latest instant; 0: it is not known since then.
        rate: requests/s in the log.
        unlogged: requests/s that begin and are not in the log, below 0 where fewer begin than end; None: not known.
        in_progress: requests in progress, mean, by the log.
        at: the last reading that was compared, unix s.
    """

    beyond: float | None = None
    open: float = 0.0
    rate: float = 0.0
    unlogged: float | None = None
    in_progress: float = 0.0
    at: float = -math.inf

    def in_progress_of(self, counted: float) -> tuple[float, float]:
        """Return how many of the requests that are counted now are in progress and do not remain open: least and most.

        Both are the same, unless what is not in the log has grown: by new connections that remain open, or by
        requests that wait.
        """
        beyond = counted if self.beyond is None else self.beyond
        chance = max(FEW_OPEN, SHARE_OPEN * self.in_progress, SURE_OPEN * math.sqrt(2.0 * max(self.open, 0.0)))
        if counted < beyond - chance:  # many of those that remained open have ended since
            return 0.0, counted
        if beyond > self.open + chance:
            return max(counted - beyond, 0.0), counted - max(self.open, 0.0)
        in_progress = max(counted - (self.beyond or 0.0), 0.0)
        return in_progress, in_progress


def reconciled(counts: Counts, ledger: Ledger, service: str, since: float, until: float, old: float) -> Reconciliation:
    """Return how counts and the log of the same requests differ.

    Args:
        counts: of the requests.
        ledger: of the log.
        service: whose requests are counted; ``ALL``: those of every service.
        since: from when on the log is complete, unix s.
        until: until when it is, unix s: all requests that were present have ended.
        old: what was there then and is not in the log is open, unix s.
    """
    inside = (counts.time >= since) & (counts.time <= until)
    inside[: counts.restarted] = False
    at = counts.time[inside]
    if len(at) < FEWEST or at[-1] - at[0] < LEAST:
        return Reconciliation()
    present = ledger.present(service, at)
    in_progress = counts.in_progress[inside]
    seconds = float(at[-1] - at[0])
    ended = float(np.diff(ledger.ended(service, at[[0, -1]]))[0])
    unlogged = None
    if counts.arrived is not None:
        arrived = counts.arrived[inside]
        unlogged = float(arrived[-1] - arrived[0] - (in_progress[-1] - in_progress[0]) - ended) / seconds
    beyond = in_progress - present
    before = beyond[(at >= old - LATEST) & (at <= old)]
    return Reconciliation(
        beyond=float(np.median(beyond[at >= at[-1] - LATEST])),
        open=float(np.median(before)) if len(before) else 0.0,
        rate=ended / seconds,
        unlogged=unlogged,
        in_progress=float(present.mean()),
        at=float(at[-1]),
    )
