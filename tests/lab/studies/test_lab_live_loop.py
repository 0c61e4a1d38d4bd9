"""The exporter's live signal in the simulated loop: within the objective, at what cost, and what must not move it.

Counts, lines of the log and looks are simulated; what computes the number from them is the exporter's own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sojourn.export.settings import LONGEST_LAG, Settings
from sojourn.model.objective import DEFAULT, objective_of
from sojourn_lab.scenario.experiment_settings import Autoscale
from studies.autoscale.live_value import NO_TIMES, LiveValue, Times
from studies.autoscale.oracle import Objective, window_edges, workers_needed
from studies.autoscale.policies import AutoscalerPolicy
from studies.autoscale.simulation import simulate

BEGIN, END = 10.0, 110.0  # s of the judged time
PERIOD, HOLD, STARTUP = 2.0, 10.0, 0.3  # s
NONE_ELSE = NO_TIMES, NO_TIMES


def live_policy(hold: float = HOLD, **more: Any) -> AutoscalerPolicy:
    """An autoscaler that sets the live number, the highest of the last ``hold`` seconds."""
    settings = Settings(objectives=[objective_of(DEFAULT)], hold=hold, startup=STARTUP)
    return AutoscalerPolicy(Autoscale("workers_live", stabilisation=hold), LiveValue(settings, **more))


def steps(rates: list[float], edges: list[float], rng: np.random.Generator) -> Times:
    """Poisson arrivals with a rate between each two edges."""
    parts = [
        rng.uniform(begin, end, rng.poisson(rate * (end - begin)))
        for rate, begin, end in zip(rates, [0.0, *edges], [*edges, END], strict=True)
    ]
    return np.sort(np.concatenate(parts))


def spiky(rng: np.random.Generator) -> Times:
    return steps([20, 80, 20, 60, 20, 70, 20], [18, 34, 56, 60, 82, 90], rng)


def diurnal(rng: np.random.Generator) -> Times:
    candidates = steps([80], [], rng)
    rate = 10 + 35 * (1 - np.cos(2 * np.pi * (candidates - BEGIN) / 100))
    return candidates[rng.uniform(0, 80, len(candidates)) < rate]


def figures(
    seed: int,
    arrivals: Times,
    services: Times,
    others: tuple[Times, Times] = NONE_ELSE,
    other: str | None = None,
    delay: float = 0.0,
    since: float = BEGIN,
) -> tuple[float, float, float]:
    """Return the share within the objective, the cost as a ratio to the yardstick's, and the mean workers."""
    begin, end = others
    policy = live_policy(begin=begin, end=end, other=other, delay=delay)
    phase = float(np.random.default_rng(seed + 1_000).uniform(0, PERIOD))
    simulated = simulate(arrivals, services, policy, startup=STARTUP, phase=phase, timeout=5.0, until=END)
    least = workers_needed(arrivals, services, window_edges(since, END, 2 * PERIOD), Objective(0.1, 0.95), 64)
    spent = simulated.worker_seconds(since, END)
    return simulated.within_share(0.1, since, END), spent / (sum(least) * 2 * PERIOD), spent / (END - since)


def means(runs: list[tuple[float, float, float]]) -> list[float]:
    return np.mean(runs, axis=0).tolist()


def loads(kind: str, seeds: int, first: int = 0) -> list[tuple[int, Times, Times]]:
    loads = []
    for seed in range(first, first + seeds):
        rng = np.random.default_rng(seed)
        arrivals = spiky(rng) if kind == "spiky" else diurnal(rng)
        loads.append((seed, arrivals, rng.exponential(0.1, len(arrivals))))
    return loads


@pytest.mark.parametrize(
    ("kind", "within", "cost"), [("diurnal", (0.94, 0.985), (1.10, 1.29)), ("spiky", (0.78, 0.90), (1.34, 1.55))]
)
def test_loads_of_the_study(kind: str, within: tuple[float, float], cost: tuple[float, float]) -> None:
    """The intervals of single runs hold for the mean of four."""
    share, ratio, _ = means([figures(*load) for load in loads(kind, 4)])
    assert within[0] <= share <= within[1]
    assert cost[0] <= ratio <= cost[1]


DRAWS = {
    "exponential": lambda rng, count: rng.exponential(0.1, count),
    "log-normal": lambda rng, count: rng.lognormal(np.log(0.1) - 0.5, 1.0, count),
    "mixture": lambda rng, count: np.where(rng.uniform(size=count) < 0.9, 0.05, 0.55),
}


@pytest.mark.parametrize(
    ("rate", "draw"),
    [
        pytest.param(rate, draw, marks=[] if (rate, draw) in ((10, "mixture"), (45, "exponential")) else [thorough])
        for thorough in [pytest.mark.thorough]
        for rate in (10, 45, 80)
        for draw in DRAWS
    ],
)
def test_steady_load_is_within_the_objective(rate: int, draw: str) -> None:
    runs = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        arrivals = steps([rate], [], rng)
        runs.append(figures(seed, arrivals, DRAWS[draw](rng, len(arrivals))))
    share, _, workers = means(runs)
    assert 0.96 <= share <= 0.998
    assert workers <= {10: 4.0, 45: 9.0, 80: 13.5}[rate]


def test_static_files_beside_it_change_little() -> None:
    alone, beside = [], []
    for seed, arrivals, services in loads("spiky", 3, first=100):
        begin = steps([400], [], np.random.default_rng(seed + 500))
        files = begin, begin + np.random.default_rng(seed).exponential(0.001, len(begin))
        alone.append(figures(seed, arrivals, services))
        beside.append(figures(seed, arrivals, services, files, delay=0.3))
    (share, _, workers), (share_beside, _, workers_beside) = means(alone), means(beside)
    assert share_beside >= share - 0.05
    assert workers_beside <= 1.08 * workers


def test_second_service_that_jumps_changes_nothing() -> None:
    rng = np.random.default_rng(3)
    arrivals = steps([20], [], rng)
    services = rng.exponential(0.1, len(arrivals))
    others = {}
    for name, rates in (("steady", [20.0, 20.0]), ("jumping", [20.0, 200.0])):
        begin = steps(rates, [50], rng)
        others[name] = begin, begin + rng.exponential(0.1, len(begin))
    (share, _, workers), (share_of_jump, _, workers_of_jump) = (
        figures(3, arrivals, services, each, "blog", delay=0.3) for each in others.values()
    )
    assert share_of_jump >= share - 0.02
    assert abs(workers_of_jump - workers) <= 0.4


def test_open_connections_add_no_workers() -> None:
    """500 WebSockets from the beginning, and two more each second; after 30 s it is known that they remain open."""
    rng = np.random.default_rng(5)
    arrivals = steps([45], [], rng)
    services = rng.exponential(0.1, len(arrivals))
    begin = np.concatenate([np.full(500, 0.001), steps([2], [], rng)])
    later = BEGIN + LONGEST_LAG + HOLD
    alone = figures(5, arrivals, services, since=later)
    beside = figures(5, arrivals, services, (begin, begin + 1e6), delay=0.3, since=later)
    assert beside[2] <= 1.2 * alone[2]
    assert beside[0] >= alone[0] - 0.02


@pytest.mark.thorough
@pytest.mark.parametrize(("mean", "rate"), [(5.0, 0.2), (30.0, 0.2)])
def test_long_services_in_a_long_window(mean: float, rate: float) -> None:
    """With the default hold of 300 s, looks every 15 s."""
    rng = np.random.default_rng(9)
    arrivals = np.sort(rng.uniform(0.0, 6_000.0, rng.poisson(rate * 6_000)))
    services = rng.exponential(mean, len(arrivals))
    policy = live_policy(hold=300.0)
    simulated = simulate(arrivals, services, policy, period=15.0, startup=STARTUP, until=6_000.0)
    assert simulated.within_share(0.1, 300.0, 6_000.0) >= 0.95
