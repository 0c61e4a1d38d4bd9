"""The exporter's live number of workers in the simulated loop: counts and lines of the log are simulated, no more."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sojourn.export.labels import Labels
from sojourn.export.live.counts import Count
from sojourn.export.live.demand import Demand, times_of
from sojourn.export.live.poller import Tick, source_of
from sojourn.export.live.signal import LiveSignal
from sojourn.export.settings import Settings
from sojourn.model.frame import SCHEMA

from studies.autoscale.policies import Observation

Times = NDArray[np.float64]
EPOCH = 1_767_225_600.0
COLUMNS = ("service", "time", "request_time", "upstream", "status", "proxy")
SERVICE = "shop"
NO_TIMES = np.empty(0)


class LiveValue:
    """The value of the signal `workers_live` at a look, for an `AutoscalerPolicy`.

    Args:
        settings: objective, hold and start-up.
        begin, end: s, of requests beside those of the loop, behind the same proxy.
        other: their service; None: they go to no backend.
        delay: seconds until the exporter has read a line.
    """

    def __init__(
        self,
        settings: Settings,
        begin: Times = NO_TIMES,
        end: Times = NO_TIMES,
        other: str | None = None,
        delay: float = 0.0,
    ) -> None:
        self._signal = LiveSignal([source_of("http://127.0.0.1/status")], settings)
        self._labels = Labels()
        self._begin, self._end, self._other = np.sort(begin), np.sort(end), other
        self._pairs = sorted(zip(end.tolist(), begin.tolist(), strict=True))
        self._delay = delay
        self._samples = self._ended = self._reads = self._passed = 0

    def __call__(self, now: float, observation: Observation) -> float | None:
        """Return the gauge at an instant, s; None: it is absent."""
        self._count(observation)
        self._read(now - self._delay, observation)
        services = observation.services()
        if services:
            self._signal.set_demand(SERVICE, Demand(times_of(np.array(services)), float(observation.ready)))
        gauges = self._signal.samples([SERVICE], EPOCH + now)
        return next((each.value for each in gauges if each.name == "sojourn_workers_needed"), None)

    def _count(self, observation: Observation) -> None:
        for sample in observation.samples[self._samples :]:
            begun, ended = (int(np.searchsorted(each, sample.time, "right")) for each in (self._begin, self._end))
            self._reads += 1
            count = Count(sample.arrived + begun + self._reads, sample.in_progress + begun - ended, has_query=True)
            self._signal.poller.add(Tick(EPOCH + sample.time, (count,), (self._reads,)))
        self._samples = len(observation.samples)

    def _read(self, until: float, observation: Observation) -> None:
        rows: list[tuple[object, ...]] = []
        while self._ended < len(observation.ended) and observation.ended[self._ended].end <= until:
            line = observation.ended[self._ended]
            rows.append((SERVICE, _at(line.end), line.end - line.arrival, "10.0.0.1:80", 200, "edge"))
            self._ended += 1
        upstream = None if self._other is None else "10.0.0.2:80"
        while self._passed < len(self._pairs) and self._pairs[self._passed][0] <= until:
            end, begin = self._pairs[self._passed]
            rows.append((self._other, _at(end), end - begin, upstream, 200, "edge"))
            self._passed += 1
        if rows:
            table = pl.DataFrame(rows, schema={name: SCHEMA[name] for name in COLUMNS}, orient="row")
            self._labels.of(table.with_columns(route=pl.lit("/")))
            self._signal.add(table, self._labels)
        self._signal.read(EPOCH + until, complete=True)
        self._signal.learn(_at(0.0), _at(until))


def _at(seconds: float) -> datetime:
    return datetime.fromtimestamp(EPOCH + seconds, UTC)
