"""Services that depend on the load are recognised; services of plain systems never are."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest
import sojourn
from sojourn.timeline.contention.independence import independence_of
from wide_tables import one_of
from worker_log import Draw, WorkerSystem, constant, exponential, worker_log


def _lognormal(mean: float) -> Draw:
    return lambda rng, _: rng.lognormvariate(math.log(mean) - 0.5, 1)


def _hyperexponential(mean: float) -> Draw:
    return lambda rng, _: rng.expovariate(1 / (5.5 * mean)) if rng.random() < 0.1 else rng.expovariate(2 / mean)


def _bimodal(mean: float) -> Draw:
    return lambda rng, route: rng.expovariate(1 / (3 * mean if route == "/search" else 0.5 * mean))


LAWS = {
    "constant": constant,
    "exponential": exponential,
    "lognormal": _lognormal,
    "hyperexponential": _hyperexponential,
    "bimodal by route": _bimodal,
}


@pytest.mark.parametrize(("law", "seed"), one_of(4, LAWS, range(4)))
def test_plain_systems_are_independent(tmp_path: Path, law: str, seed: int) -> None:
    rng = random.Random(f"{law} {seed}")
    system = WorkerSystem(
        workers=rng.randint(1, 12),
        load=rng.uniform(0.4, 0.92),
        service=LAWS[law](0.05),
        burst=rng.choice([1, 1, 5]),
        between=rng.choice([(0.0, 0.0), (0.0005, 0.0025)]),
        seed=seed,
    )
    worker_log(tmp_path / "a.jsonl", system)
    assert independence_of(sojourn.visits(tmp_path / "a.jsonl")).dependences == ()


def test_drift_of_all_services_is_not_a_dependence(tmp_path: Path) -> None:
    started = iter(range(4_000))

    def slower_for_a_while(rng: random.Random, _: str) -> float:
        return rng.expovariate(20) * (2.3 if 1_500 < next(started) < 2_500 else 1.0)

    worker_log(tmp_path / "a.jsonl", WorkerSystem(load=0.6, service=slower_for_a_while))
    assert independence_of(sojourn.visits(tmp_path / "a.jsonl")).dependences == ()


@pytest.mark.parametrize("noise", [0.0, 0.005, 0.01])
def test_noise_of_a_machine_on_constant_services_is_no_dependence(tmp_path: Path, noise: float) -> None:
    level = [0.0]

    def nearly_constant(rng: random.Random, _: str) -> float:
        level[0] = 0.9 * level[0] + rng.gauss(0.0, noise)
        return 0.05 * (1.0 + level[0] + (0.5 if rng.random() < 0.005 else 0.0))

    worker_log(tmp_path / "a.jsonl", WorkerSystem(load=0.6, service=nearly_constant))
    assert independence_of(sojourn.visits(tmp_path / "a.jsonl")).dependences == ()


def test_services_shorter_than_the_steps_of_the_clock(tmp_path: Path) -> None:
    system = WorkerSystem(service=lambda rng, _: rng.choice([0.0, 1e-6, 0.1]), mean=0.034, load=0.9, burst=4)
    worker_log(tmp_path / "a.jsonl", system)
    independence_of(sojourn.visits(tmp_path / "a.jsonl"))


def test_few_requests_say_nothing(tmp_path: Path) -> None:
    worker_log(tmp_path / "a.jsonl", WorkerSystem(requests=250))
    assert independence_of(sojourn.visits(tmp_path / "a.jsonl")).dependences == ()
