"""Requests with chosen begins and ends, counted by a proxy and logged at their ends, and the live signal of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np
import polars as pl
from sojourn.export.labels import Labels
from sojourn.export.live.counts import Count
from sojourn.export.live.demand import Demand
from sojourn.export.live.poller import Tick, source_of
from sojourn.export.live.signal import LiveSignal
from sojourn.export.settings import Settings
from sojourn.model.frame import SCHEMA
from sojourn.model.objective import DEFAULT, objective_of
from sojourn.queueing.live_staffing import ServiceTimes

EPOCH = 1_767_225_600.0
COLUMNS = ("service", "time", "request_time", "upstream", "status", "proxy")
STATUS = "http://127.0.0.1/status"


@dataclass(frozen=True)
class Requests:
    """Requests with one label each.

    Attributes:
        begin, end: s after ``EPOCH``.
        service: None: they go to no backend.
        is_logged: whether they are in the log.
        status, proxy: as in the log.
    """

    begin: np.ndarray
    end: np.ndarray
    service: str | None = "shop"
    is_logged: bool = True
    status: int = 200
    proxy: str = "edge"

    def rows(self, since: float, until: float) -> list[tuple[object, ...]]:
        """The lines of those that ended in (since, until]."""
        upstream = None if self.service is None else "10.0.0.1:80"
        inside = np.flatnonzero((self.end > since) & (self.end <= until)) if self.is_logged else ()
        return [
            (self.service, datetime.fromtimestamp(EPOCH + self.end[k], UTC), float(self.end[k] - self.begin[k]),
             upstream, self.status, self.proxy)
            for k in inside
        ]  # fmt: skip


@dataclass
class Scene:
    """A live signal to which requests happen second by second.

    Attributes:
        requests: of all services.
        sources: texts of ``--status``, each of which counts the requests for which ``counts`` is true.
        counts: of each source; None: everything.
        demands: of each service.
        delay: s until a line is written.
        silent_after: no line is written any more, s.
        has_waiting: whether the sources count requests that wait.
        has_total: whether they count those that have begun so far.
        hold: of the autoscaler, s.
    """

    requests: Sequence[Requests]
    sources: Sequence[str] = (STATUS,)
    counts: Sequence[Callable[[Requests], bool]] | None = None
    demands: dict[str, Demand] = field(default_factory=lambda: {"shop": Demand(ServiceTimes(0.1), 8.0)})
    delay: float = 0.0
    silent_after: float = np.inf
    has_waiting: bool = True
    has_total: bool = True
    hold: float = 10.0

    def __post_init__(self) -> None:
        settings = Settings(objectives=[objective_of(DEFAULT), objective_of("response_time:p99=1")], hold=self.hold)
        self.signal = LiveSignal([source_of(text) for text in self.sources], settings)
        for service, demand in self.demands.items():
            self.signal.set_demand(service, demand)
        self._labels = Labels()
        self._reads = 0
        self.now = 0.0

    def run(self, until: float) -> dict[tuple[str, ...], float]:
        """Let the time pass until an instant, and return the samples then, by name and labels."""
        while self.now < until - 1e-9:
            begun, self.now = self.now, min(self.now + 1.0, until)
            for instant in np.arange(begun + 0.2, self.now + 1e-9, 0.2).tolist():
                self._tick(instant)
            written = min(self.now, self.silent_after) - self.delay
            rows = [row for each in self.requests for row in each.rows(begun - self.delay, written)]
            table = pl.DataFrame(rows, schema={name: SCHEMA[name] for name in COLUMNS}, orient="row")
            if len(table):
                self._labels.of(table.with_columns(route=pl.lit("/")))
                self.signal.add(table, self._labels)
            self.signal.read(EPOCH + self.now, complete=True)
            self.signal.learn(datetime.fromtimestamp(EPOCH, UTC), datetime.fromtimestamp(EPOCH + self.now, UTC))
        services = sorted({each.service for each in self.requests if each.service})
        samples = self.signal.samples(services, EPOCH + self.now)
        return {(sample.name, *sample.labels): sample.value for sample in samples}

    def _tick(self, instant: float) -> None:
        self._reads += 1
        counts = []
        for number in range(len(self.sources)):
            chosen = [each for each in self.requests if self.counts is None or self.counts[number](each)]
            arrived = sum(int((each.begin <= instant).sum()) for each in chosen)
            ended = sum(int((each.end <= instant).sum()) for each in chosen)
            counts.append(
                Count(
                    arrived + self._reads if self.has_total else None,
                    arrived - ended,
                    has_query=True,
                    has_waiting=self.has_waiting,
                )
            )
        reads = (self._reads,) * len(self.sources)
        self.signal.poller.add(Tick(EPOCH + instant, tuple(counts), reads))


def poisson(rate: float, since: float, until: float, seed: int = 1) -> np.ndarray:
    """Poisson arrivals between two instants."""
    rng = np.random.default_rng(seed)
    return np.sort(rng.uniform(since, until, rng.poisson(rate * (until - since))))


def lasting(begin: np.ndarray, seconds: float, **fields: object) -> Requests:
    """Requests that last equally long."""
    return Requests(begin, begin + seconds, **fields)  # type: ignore[arg-type]


def needed(samples: dict[tuple[str, ...], float], service: str = "shop") -> float | None:
    """The workers needed by the method live; None: there is no series."""
    return samples.get(("sojourn_workers_needed", service, DEFAULT, "live"))


def in_progress(samples: dict[tuple[str, ...], float], service: str = "shop") -> float | None:
    """The requests in progress; None: there is no series."""
    return samples.get(("sojourn_requests_in_progress", service))


def refused(samples: dict[tuple[str, ...], float], service: str = "shop") -> list[str]:
    """The reasons of the refusal."""
    name = "sojourn_live_refused"
    return [key[2] for key, value in samples.items() if key[:2] == (name, service) and value == 1.0]
