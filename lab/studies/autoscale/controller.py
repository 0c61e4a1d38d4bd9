"""The decision of Kubernetes' Horizontal Pod Autoscaler: from the looks at a signal to the number of workers. No I/O.

The signals that it goes by have the same limits and the same hysteresis: the number is the highest recommendation of
the last `stabilisation` seconds. So it rises at once, and it falls only when nothing in that time recommended more.
`other_controllers.py` has autoscalers with rules of their own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sojourn_lab.scenario.experiment_settings import Autoscale, Signal

TOLERANCE = 0.1
"""A ratio of value and target this close to 1 changes nothing (the default of Kubernetes)."""

STEPS_UP = ((4.0, 2.0), (2.0, 1.5), (1.0, 1.25))
"""Step scaling of a delay: where it exceeds the threshold times the first number, the workers times the second."""

CALM, STEP_DOWN = 0.1, 0.75
"""Where the delay is below this share of the threshold, the workers are multiplied by the second number."""

RATIOS: tuple[Signal, ...] = ("cpu", "cpu_of_busy", "in_flight")
"""Signals whose value is per worker."""


@dataclass(frozen=True)
class Look:
    """One look at the signal.

    Attributes:
        time: s, of any clock that does not jump.
        workers: the number that was set at that time.
        value: of the signal; None: it had none.
        ready: workers that could serve a request.
        in_flight: (instant, requests in flight), the samples since the look before.
    """

    time: float
    workers: int
    value: float | None
    ready: int = 1
    in_flight: Sequence[tuple[float, int]] = ()


class Controller(Protocol):
    """Decides how many workers there should be, look by look."""

    def desired(self, look: Look) -> int:
        """Return the number of workers to set after this look."""


def recommended_workers(settings: Autoscale, target: float, look: Look) -> int | None:
    """Return the number of workers that one look recommends, without limits and hysteresis.

    Args:
        settings: the signal and the objective.
        target: the value per worker that a ratio aims at, in the unit of the value.
        look: its value is cores per worker (``cpu``, ``cpu_of_busy``), requests per worker (``in_flight``), the 95th
            percentile of the queueing delay, s (``queueing_delay``), or workers (``workers_needed``, ``workers_live``).

    Returns:
        For a value per worker ceil(workers · value / target), the formula of the Horizontal Pod Autoscaler; for a delay
        a step; for needed workers their number. None without a value: a lost scrape is no recommendation to keep the
        present number for the whole stabilisation window.
    """
    value = look.value
    if value is None or math.isnan(value):
        return None
    if settings.signal in RATIOS:
        ratio = value / target
        return look.workers if abs(ratio - 1.0) <= TOLERANCE else _whole(look.workers * ratio, settings.maximum)
    if settings.signal == "queueing_delay":
        return _stepped(look.workers, value / (settings.threshold * settings.factor))
    if settings.signal in ("workers_needed", "workers_live"):
        return _whole(value, settings.maximum)
    return look.workers


def _whole(workers: float, most: int) -> int:
    # An infinite recommendation is possible: no number of workers holds the objective.
    return math.ceil(min(workers, float(most)) - 1e-9)


def _stepped(workers: int, excess: float) -> int:
    """Return the workers after one step; `excess`: the delay as a multiple of the threshold."""
    for least, factor in STEPS_UP:
        if excess > least:
            return max(workers + 1, math.ceil(workers * factor))
    return min(workers - 1, math.ceil(workers * STEP_DOWN)) if excess < CALM else workers


def desired_workers(settings: Autoscale, target: float, looks: Sequence[Look]) -> int:
    """Return the number of workers to set now.

    Args:
        settings: signal, limits and stabilisation.
        target: the value per worker that a ratio aims at.
        looks: in order of time, the last one now; at least those of the stabilisation window.

    Raises:
        ValueError: there is no look.
    """
    if not looks:
        raise ValueError("a decision needs at least one look at the signal")
    # A look at the very beginning of the window counts, whatever the rounding.
    since = looks[-1].time - settings.stabilisation - 1e-6
    recommended = (recommended_workers(settings, target, each) for each in looks if each.time >= since)
    # Without any recommendation in that time the number does not change.
    highest = max((each for each in recommended if each is not None), default=looks[-1].workers)
    return within_limits(settings, highest)


def within_limits(settings: Autoscale, workers: int) -> int:
    """Return the number of workers, at least the minimum and at most the maximum."""
    return min(max(workers, settings.minimum), settings.maximum)


@dataclass
class HorizontalAutoscaler:
    """The controller of the signals that have the rule and the hysteresis of the Horizontal Pod Autoscaler.

    Attributes:
        settings: signal, limits and stabilisation.
        target: the value per worker that a ratio aims at.
        looks: those of the stabilisation window.
    """

    settings: Autoscale
    target: float
    looks: list[Look] = field(default_factory=list)

    def desired(self, look: Look) -> int:
        """Return the highest recommendation of the stabilisation window, within the limits."""
        since = look.time - self.settings.stabilisation - 1e-6
        self.looks = [*(each for each in self.looks if each.time >= since), look]
        return desired_workers(self.settings, self.target, self.looks)
