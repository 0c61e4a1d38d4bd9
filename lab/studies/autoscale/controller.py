"""The autoscaler's decision: from the looks at a signal to the number of workers. No I/O.

All signals have the same limits and the same hysteresis, that of Kubernetes' Horizontal Pod Autoscaler: the number is
the highest recommendation of the last `stabilisation` seconds. So it rises at once, and it falls only when nothing in
that time recommended more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

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
    """

    time: float
    workers: int
    value: float | None


def recommended_workers(settings: Autoscale, target: float, look: Look) -> int:
    """Return the number of workers that one look recommends, without limits and hysteresis.

    Args:
        settings: the signal and the objective.
        target: the value per worker that a ratio aims at, in the unit of the value.
        look: its value is cores per worker (``cpu``, ``cpu_of_busy``), requests per worker (``in_flight``), the 95th
            percentile of the queueing delay, s (``queueing_delay``), or workers (``workers_needed``).

    Returns:
        For a value per worker ceil(workers · value / target), the formula of the Horizontal Pod Autoscaler; for a delay
        a step; for needed workers their number. Without a value: the workers that there are.
    """
    value = look.value
    if value is None or math.isnan(value):
        return look.workers
    if settings.signal in RATIOS:
        ratio = value / target
        return look.workers if abs(ratio - 1.0) <= TOLERANCE else _whole(look.workers * ratio, settings.maximum)
    if settings.signal == "queueing_delay":
        return _stepped(look.workers, value / settings.threshold)
    if settings.signal == "workers_needed":
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
    highest = max(recommended_workers(settings, target, each) for each in looks if each.time >= since)
    return min(max(highest, settings.minimum), settings.maximum)
