"""Counts of requests in front of the app, compared with the log of the same time.

What is counted and not in the log is the same at all times, as far as one can know: connections that remain open
(WebSockets, server-sent events, long polls), and requests whose log is switched off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from sojourn.export.live.ledger import Ledger
from sojourn.export.live.poller import Tick
from sojourn.export.settings import LONGEST_LAG
from sojourn.model.arrays import Floats
from sojourn.model.components import SWITCHING_PROTOCOLS

FEWEST = 5  # readings that are compared
LEAST = 1.0  # s of them


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
        if self.arrived is None:
            return 0
        fell = np.flatnonzero(np.diff(self.arrived) < 0)
        return int(fell[-1]) + 1 if len(fell) else 0


def counts_of(ticks: Sequence[Tick], sources: Sequence[int]) -> Counts:
    """Return the sums over sources, by their positions, at the readings that all of them answered."""
    complete = [tick for tick in ticks if all(tick.counts[number] is not None for number in sources)]
    each = [[tick.counts[number] for number in sources] for tick in complete]
    arrived = None
    if complete and all(count is not None and count.arrived is not None for counts in each for count in counts):
        totals = [
            sum(
                (count.arrived or 0) - (tick.reads[number] if count.has_query else 0)
                for number, count in zip(sources, counts, strict=True)
                if count is not None
            )
            for tick, counts in zip(complete, each, strict=True)
        ]
        arrived = np.array(totals, np.float64)
    return Counts(
        np.array([tick.time for tick in complete]),
        arrived,
        np.array([sum(count.in_progress for count in counts if count is not None) for counts in each], np.float64),
        all(count.has_waiting for counts in each for count in counts if count is not None),
    )


@dataclass(frozen=True)
class Logged:
    """The requests of the log that were present at a time that is complete; n of them.

    Those that are upgraded, or take longer than ``LONGEST_LAG``, are left out.

    Attributes:
        begin, end: unix s, n.
        service: the label value of each, n; None: it went to no backend.
        since, until: the log is complete in between, unix s.
        proxies: how many proxies wrote it.
    """

    begin: Floats
    end: Floats
    service: Sequence[str | None] = field(repr=False)
    since: float
    until: float
    proxies: int

    @classmethod
    def of(cls, rows: pl.DataFrame, service: pl.Series, since: float, now: float) -> Logged:
        """Return those of split rows (``time``, ``request_time``, ``status``, ``proxy``) with a label value each."""
        lasting = (pl.col("status") != SWITCHING_PROTOCOLS) & (pl.col("request_time") <= LONGEST_LAG)
        short = rows.with_columns(__label=service).filter(lasting)
        end, lasted = short["time"].dt.epoch("us").to_numpy() / 1e6, short["request_time"].to_numpy()
        recent = lasted[end > now - LONGEST_LAG]
        longest = float(recent.max()) if len(recent) else 0.0
        proxies = rows["proxy"].drop_nulls().n_unique()
        return cls(end - lasted, end, short["__label"].to_list(), since, now - longest, proxies)

    def present(self, at: Floats) -> Floats:
        """Return how many requests were present at each instant (unix s)."""
        begun, ended = (np.searchsorted(np.sort(each), at, "right") for each in (self.begin, self.end))
        return (begun - ended).astype(np.float64)

    def means(self) -> Mapping[str | None, float]:
        """Return service -> requests in progress, mean over the time that is complete."""
        seconds = max(self.until - self.since, 1e-9)
        overlap = np.clip(np.minimum(self.end, self.until) - np.maximum(self.begin, self.since), 0.0, None)
        table = pl.DataFrame({"service": self.service, "seconds": overlap}, schema_overrides={"service": pl.String})
        return {name: total / seconds for name, total in table.group_by("service").agg(pl.sum("seconds")).iter_rows()}


@dataclass(frozen=True)
class Reconciliation:
    """What is counted and not in the log.

    Attributes:
        beyond: requests in progress that the log does not have within ``LONGEST_LAG``, median; None: not known yet.
        rate: requests/s in the log.
        unlogged: requests/s that begin and are not in the log, below 0 where fewer begin than end; None: not known.
        in_progress: requests in progress, mean, by the log.
    """

    beyond: float | None = None
    rate: float = 0.0
    unlogged: float | None = None
    in_progress: float = 0.0


def reconciled(counts: Counts, logged: Logged, ledger: Ledger, service: str | None, *, alone: bool) -> Reconciliation:
    """Return how counts and the log of the same requests differ: those of a service ``alone``, or of all of them."""
    inside = (counts.time >= logged.since) & (counts.time <= logged.until)
    inside[: counts.restarted] = False
    at = counts.time[inside]
    if len(at) < FEWEST or at[-1] - at[0] < LEAST:
        return Reconciliation()
    present = logged.present(at)
    counted = counts.in_progress[inside]
    seconds = float(at[-1] - at[0])
    ended = float(np.diff(ledger.ended(at[[0, -1]], service, alone=alone))[0])
    unlogged = None
    if counts.arrived is not None:
        arrived = counts.arrived[inside]
        unlogged = float(arrived[-1] - arrived[0] - (counted[-1] - counted[0]) - ended) / seconds
    return Reconciliation(float(np.median(counted - present)), ended / seconds, unlogged, float(present.mean()))
