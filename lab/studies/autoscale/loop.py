"""The closed loop: look at the signals every few seconds, decide, and let gunicorn follow."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sojourn_lab.errors import LabError
from sojourn_lab.measure.sampling import SamplerThread
from sojourn_lab.scenario.experiment_settings import Autoscale, Signal

from studies.autoscale.controller import Look
from studies.autoscale.other_controllers import controller_of
from studies.autoscale.signals import (
    STATUS_PATH,
    Scrape,
    fetched,
    quantile_between,
    requests_in_flight,
    scrape_of,
)
from studies.autoscale.workers import CpuTimes, Workers, cores_per_worker, cpu_times

STEP = 0.05
"""Seconds between two signals to gunicorn, and between two counts of its workers."""

SAMPLES = 10
"""Samples of the requests in flight in one period; their mean is the signal."""

OF_IN_FLIGHT: tuple[Signal, ...] = ("in_flight", "knative", "aws_tracking")
"""Signals that need them."""

SAME_VALUE: dict[Signal, Signal] = {"cpu_of_busy": "cpu", "knative": "in_flight", "aws_tracking": "in_flight"}
"""Signals that have the value of another one; their targets or their rules differ."""


@dataclass(frozen=True)
class Values:
    """All signals at one look, whichever of them the autoscaler goes by.

    Attributes:
        time: unix s.
        live: workers that live.
        wanted: the number that is set from now on.
        cpu: cores per worker since the last look; None: unknown, as for the others.
        in_flight: requests in nginx per worker, mean since the last look.
        queueing_delay: its 95th percentile since the last look, s.
        workers_needed: the exporter's gauge, method `replay`.
        age: of its state, s: from the instant that it is as of to this look.
        workers_live: the exporter's gauge, method `live`.
        refused: why it is absent; empty: no reason is published.
        in_progress: requests in progress, by the exporter.
    """

    time: float
    live: int
    wanted: int
    cpu: float | None
    in_flight: float | None
    queueing_delay: float | None
    workers_needed: float | None
    age: float | None = None
    workers_live: float | None = None
    refused: str = ""
    in_progress: float | None = None


@dataclass
class Recorded:
    """What the loop has measured.

    Attributes:
        values: one of each look.
        live: (unix s, workers that live), several in a second.
        missed: scrapes without an answer.
        without_value: instants of looks whose signal had no value, unix s.
    """

    values: list[Values] = field(default_factory=list)
    live: list[tuple[float, int]] = field(default_factory=list)
    missed: int = 0
    without_value: list[float] = field(default_factory=list)


class Loop(SamplerThread):
    """A context in which the loop runs, in a thread; `check` raises what has ended it.

    Args:
        settings: of the case.
        target: the value per worker that a ratio aims at.
        workers: of the gunicorn to scale.
        nginx: its URL.
        exporter: the URL of its metrics.
        service: the name of the case in the log.
    """

    def __init__(
        self, settings: Autoscale, target: float, workers: Workers, *, nginx: str, exporter: str, service: str
    ) -> None:
        super().__init__("autoscaler")
        self._settings = settings
        self._controller = controller_of(settings, target)
        self._workers = workers
        self._status = nginx + STATUS_PATH
        self._exporter = exporter
        self._service = service
        self._in_flight: list[tuple[float, int]] = []
        self._cpu: CpuTimes | None = None
        self._delays: Scrape | None = None
        self._error: Exception | None = None
        self.recorded = Recorded()

    def check(self) -> None:
        """Raise LabError if the loop has failed."""
        if self._error is not None:
            raise LabError(f"the autoscaler failed: {self._error}") from self._error

    def _run(self) -> None:
        try:
            self._looped()
        except Exception as error:  # in a thread it would otherwise be lost
            self._error = error

    def _looped(self) -> None:
        period = self._settings.period
        start = time.monotonic()
        due: list[tuple[float, float, Callable[[], None]]] = [(start, period, self._look)]
        if self._settings.signal in OF_IN_FLIGHT:
            # Only there: each of these requests counts in nginx, too.
            due.insert(0, (start, period / SAMPLES, self._sample_in_flight))
        while not self._end.wait(STEP):
            self.recorded.live.append((time.time(), self._workers.step()))
            now = time.monotonic()
            for number, (instant, every, action) in enumerate(due):
                if now >= instant:
                    action()
                    # By the schedule, so that a slow look does not move the next one; never two at once.
                    due[number] = (max(instant + every, now), every, action)

    def _sample_in_flight(self) -> None:
        status = fetched(self._status)
        if status is not None:
            self._in_flight.append((time.monotonic(), requests_in_flight(status)))

    def _look(self) -> None:
        live, ready = self._workers.live(), self._workers.ready()
        cpu = cpu_times(ready, time.monotonic())
        text = fetched(self._exporter)
        scrape = None if text is None else scrape_of(text, self._service)
        if scrape is None:
            self.recorded.missed += 1
        values = {
            "cpu": None if self._cpu is None else cores_per_worker(self._cpu, cpu),
            "in_flight": _mean(self._in_flight, len(live)),
            "queueing_delay": _delay(self._delays, scrape, self._settings.share),
            "workers_needed": None if scrape is None else scrape.needed,
            "workers_live": None if scrape is None else scrape.live,
        }
        signal = SAME_VALUE.get(self._settings.signal, self._settings.signal)
        look = Look(time.monotonic(), self._workers.desired, values.get(signal), len(ready), self._in_flight)
        self._cpu, self._in_flight = cpu, []
        self._delays = scrape if scrape is not None else self._delays
        self._workers.desired = self._controller.desired(look)
        now = time.time()
        if signal in values and look.value is None:
            self.recorded.without_value.append(now)
        age = None if scrape is None or scrape.as_of is None else now - scrape.as_of
        refused, in_progress = ("", None) if scrape is None else (scrape.refused, scrape.in_progress)
        self.recorded.values.append(
            Values(now, len(live), self._workers.desired, **values, age=age, refused=refused, in_progress=in_progress)
        )


def _mean(samples: Sequence[tuple[float, int]], workers: int) -> float | None:
    return sum(count for _, count in samples) / (len(samples) * workers) if samples and workers else None


def _delay(before: Scrape | None, after: Scrape | None, share: float) -> float | None:
    if before is None or after is None:
        return None
    return quantile_between(before.delays, after.delays, share)
