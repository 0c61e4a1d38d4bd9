"""Simulations agree with Ciw: the intervals of both overlap."""

from __future__ import annotations

import math

import ciw
import numpy as np
import pytest
from sojourn.analyses.simulate.analysis import simulate
from sojourn.queueing.system import System

RUNS = 8
REQUESTS = 3_000


def of_ciw(discipline: object, workers: int, capacity: float, rate: float) -> tuple[np.ndarray, np.ndarray]:
    """Per run: mean wait, share rejected."""
    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Exponential(rate)],
        service_distributions=[ciw.dists.Exponential(10.0)],
        number_of_servers=[workers],
        queue_capacities=[capacity],
        service_disciplines=[discipline],
    )
    waits, rejected = [], []
    for seed in range(RUNS):
        ciw.seed(seed)
        simulation = ciw.Simulation(network)
        simulation.simulate_until_max_customers(REQUESTS, method="Arrive")
        records = simulation.get_all_records(only=["service", "rejection"])
        waits.append(np.mean([r.waiting_time for r in records if r.record_type == "service"]))
        rejected.append(np.mean([r.record_type == "rejection" for r in records]))
    return np.array(waits), np.array(rejected)


@pytest.mark.parametrize(
    ("discipline", "workers", "capacity", "rate"),
    [
        ("fifo", 1, None, 6.0),
        ("lifo", 1, None, 6.0),
        ("fifo", 2, None, 14.0),
        ("fifo", 1, 3, 9.0),
        ("lifo", 2, 4, 24.0),
    ],
)
def test_simulation_agrees_with_ciw_within_noise(
    discipline: str, workers: int, capacity: int | None, rate: float
) -> None:
    by_ciw = of_ciw(
        ciw.disciplines.LIFO if discipline == "lifo" else ciw.disciplines.FIFO,
        workers,
        math.inf if capacity is None else capacity,
        rate,
    )
    system = System((workers,), discipline, capacity=capacity)
    by_replay = [
        simulate(f"poisson:{rate}", "exponential:0.1", system, requests=REQUESTS, warmup=0, seed=seed)
        for seed in range(5 * RUNS)
    ]
    waits = np.array([run.wait["mean"] for run in by_replay])
    rejected = np.array([run.counts["rejected"] / run.counted for run in by_replay])
    for name, measured, other in (("wait", waits, by_ciw[0]), ("rejected", rejected, by_ciw[1])):
        noise = math.sqrt(measured.var(ddof=1) / len(measured) + other.var(ddof=1) / len(other))
        assert abs(measured.mean() - other.mean()) <= 3 * noise + 1e-12, name
    if capacity is not None:
        assert by_ciw[1].mean() > 0.05
