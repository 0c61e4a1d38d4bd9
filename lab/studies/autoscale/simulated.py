"""The settings of the study in the simulated loop, each with the same many loads: how much of a result is chance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from sojourn.export.settings import Settings
from sojourn.model.objective import DEFAULT, objective_of
from sojourn.model.statistics import student_t
from sojourn_lab.errors import LabError
from sojourn_lab.load.generator.loops import open_schedule
from sojourn_lab.load.plan import Plan
from sojourn_lab.scenario.experiment_settings import Autoscale, Signal
from sojourn_lab.scenario.schema import Scenario

from studies.autoscale.case import yardstick_of
from studies.autoscale.live_value import LiveValue
from studies.autoscale.policies import AutoscalerPolicy, Observation
from studies.autoscale.recorded import Cell, Figure, Point
from studies.autoscale.simulation import simulate
from studies.autoscale.workers import OWN_STARTUP

SIMULATED: tuple[Signal, ...] = ("in_flight", "queueing_delay", "knative", "aws_tracking", "workers_live")
"""Signals that need no processor to be measured, and no log that is complete."""

DRAWS = 20
"""Loads that are drawn."""

LEVEL = 0.95


@dataclass(frozen=True)
class Drawn:
    """One load: arrivals and service times, the instant of the first look (s), and the yardstick's worker-seconds."""

    arrivals: NDArray[np.float64]
    services: NDArray[np.float64]
    phase: float
    yardstick: float


@dataclass(frozen=True)
class SimulatedSetting:
    """What a setting attains, and what it costs, of each load that was drawn.

    Attributes:
        cell: the measured case with this setting.
        within: the share of the requests within the objective.
        cost: worker-seconds, as a share of the yardstick's.
    """

    cell: Cell
    within: NDArray[np.float64]
    cost: NDArray[np.float64]

    @property
    def point(self) -> Point:
        """The means and their 95 % intervals."""
        return Point(self.cell, interval(self.within), interval(self.cost))

    def is_better(self, other: SimulatedSetting) -> bool:
        """Return whether it is better beyond chance in attainment or cost, and not worse in the other.

        Beyond chance: by the 95 % interval of the difference under the same loads.
        """
        gain, saving = interval(self.within - other.within), interval(other.cost - self.cost)
        return min(gain.mean, saving.mean) >= 0 and max(gain.low, saving.low) > 0


def interval(values: NDArray[np.float64]) -> Figure:
    """Return the mean, and the ends of its 95 % confidence interval (Student's t)."""
    mean = float(values.mean())
    half = student_t((1 + LEVEL) / 2, len(values) - 1) * float(values.std(ddof=1)) / len(values) ** 0.5
    return Figure(mean, mean - half, mean + half)


def simulated_cells(scenario: Scenario, cells: Sequence[Cell], draws: int = DRAWS) -> list[SimulatedSetting]:
    """Return what the loop simulates for the cells of one load; those of other signals than `SIMULATED` have none.

    Args:
        scenario: its times.
        cells: of one load.
        draws: loads, the first with the requests of the run; at least 2.
    """
    suitable = [cell for cell in cells if cell.signal in SIMULATED]
    if not suitable:
        return []
    loads = [_drawn(scenario, suitable[0], number) for number in range(draws)]
    return [_simulated(scenario, cell, loads) for cell in suitable]


def _drawn(scenario: Scenario, cell: Cell, number: int) -> Drawn:
    """Return a load of a case, from 0 on; LabError if the case has none."""
    case, settings = cell.first.case, cell.first.settings
    if case.load is None:
        raise LabError(f"case {case.name} has no load")
    plan = Plan(
        case=case.name, url="", seed=[scenario.seed + number, case.seed or 0], load=case.load,
        service_time=case.mean_service_time, distribution=case.distribution, warmup=scenario.warmup,
        duration=scenario.duration, timeout=scenario.timeout_of(case), client_log="", summary="",
    )  # fmt: skip
    rng = np.random.default_rng(plan.seed)
    arrivals, services = open_schedule(plan, rng)
    edges, least = yardstick_of(plan, settings, arrivals, services)
    return Drawn(arrivals, services, float(rng.uniform(0.0, settings.period)), sum(least) * (edges[1] - edges[0]))


def _simulated(scenario: Scenario, cell: Cell, loads: Sequence[Drawn]) -> SimulatedSetting:
    settings = cell.first.settings
    startup = OWN_STARTUP + (cell.first.case.topology.loading or 0.0)
    since, until = scenario.warmup, scenario.warmup + scenario.duration
    within, cost = [], []
    for load in loads:
        simulated = simulate(
            load.arrivals, load.services, AutoscalerPolicy(settings, _signal(settings, startup)),
            workers=settings.minimum, period=settings.period, phase=load.phase, startup=startup,
            timeout=scenario.timeout_of(cell.first.case), until=until,
        )  # fmt: skip
        within.append(simulated.within_share(settings.threshold, since, until))
        cost.append(simulated.worker_seconds(since, until) / load.yardstick)
    return SimulatedSetting(cell, np.array(within), np.array(cost))


def _signal(settings: Autoscale, startup: float) -> Callable[[float, Observation], float | None] | None:
    """Return what has the signal's value at a look; None: it is the requests in flight per worker."""
    match settings.signal:
        case "workers_live":
            objective = replace(objective_of(DEFAULT), seconds=settings.threshold, share=settings.gauge_share)
            return LiveValue(Settings(objectives=[objective], hold=settings.stabilisation, startup=startup))
        case "queueing_delay":
            return DelayValue(settings.share)
        case _:
            return None


class DelayValue:
    """The value of the signal `queueing_delay`: a quantile of those that ended since the last look, s.

    Args:
        share: of the quantile.
    """

    def __init__(self, share: float) -> None:
        self._share = share
        self._ended = 0

    def __call__(self, now: float, observation: Observation) -> float | None:
        """Return the quantile at an instant; None: no request ended."""
        del now
        waits = [each.wait for each in observation.ended[self._ended :] if each.wait is not None]
        self._ended = len(observation.ended)
        return float(np.quantile(waits, self._share)) if waits else None
