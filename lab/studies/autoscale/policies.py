"""Policies of the simulated loop: what an autoscaler beside a server can know, and what it makes of that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from sojourn_lab.scenario.experiment_settings import Autoscale

from studies.autoscale.controller import Look
from studies.autoscale.other_controllers import controller_of


@dataclass(frozen=True)
class Sample:
    """Counts at an instant: the requests that have arrived so far, and those in progress (waiting or in service)."""

    time: float
    arrived: int
    in_progress: int


@dataclass(frozen=True)
class Ended:
    """A line of the log: a request that ended.

    Attributes:
        arrival, end: s.
        service: its service time, s; None: the client gave up before the answer.
        wait: its queueing delay, s; None as well.
    """

    arrival: float
    end: float
    service: float | None
    wait: float | None


@dataclass(frozen=True)
class Observation:
    """What an autoscaler knows at a look. The sequences grow from look to look: copy what has to be kept.

    Attributes:
        samples: one every 0.2 s from 0 to now, oldest first.
        ended: the requests that have ended, in the order of their ends.
        arrived, in_progress: the counts now.
        ready: workers that serve or could serve a request.
        living: workers that are ready, start, or end after their request.
        desired: the number that is set.
    """

    samples: Sequence[Sample]
    ended: Sequence[Ended]
    arrived: int
    in_progress: int
    ready: int
    living: int
    desired: int

    def services(self, most: int = 500) -> list[float]:
        """Return the service times of the last `most` requests that were answered, oldest first, s."""
        times: list[float] = []
        for line in reversed(self.ended):
            if len(times) == most:
                break
            if line.service is not None:
                times.append(line.service)
        return times[::-1]


class Policy(Protocol):
    """Decides how many workers there should be."""

    def look(self, now: float, observation: Observation) -> int:
        """Return the number of workers to set at the instant `now` (s), at least 1."""


@dataclass(frozen=True)
class FixedPolicy:
    """A constant number of workers."""

    workers: int

    def look(self, now: float, observation: Observation) -> int:
        """Return the constant."""
        del now, observation
        return self.workers


class AutoscalerPolicy:
    """The lab's autoscaler: a signal, and the controller that the settings of a case have.

    Args:
        settings: of the case.
        signal: returns the value of the signal, None without one; None: that of the requests in flight per worker, the
            mean since the last look.
        target: the value per worker that a ratio aims at; None: that of the settings.
    """

    def __init__(
        self,
        settings: Autoscale,
        signal: Callable[[float, Observation], float | None] | None = None,
        target: float | None = None,
    ) -> None:
        self._controller = controller_of(settings, settings.target if target is None else target)
        self._signal = signal
        self._samples = 0

    def look(self, now: float, observation: Observation) -> int:
        """Return the number of workers that the controller sets."""
        samples = [(each.time, each.in_progress) for each in observation.samples[self._samples :]]
        self._samples = len(observation.samples)
        if self._signal is not None:
            value = self._signal(now, observation)
        else:
            value = sum(count for _, count in samples) / len(samples) / observation.living if samples else None
        return self._controller.desired(Look(now, observation.desired, value, observation.ready, samples))
