"""Staffing in closed form: against tables, the definition, and a simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import log_ndtr
from sojourn.queueing.replay import replay
from sojourn.queueing.staffing import erlang_c_workers, square_root_workers
from sojourn.queueing.system import System
from sojourn.queueing.theory import mmc_wait_exceeds


def test_erlang_c_workers_of_a_call_centre() -> None:
    # 100 calls an hour of 3 minutes, 80 % answered within 20 s: 8 agents, as tables of Erlang C have it.
    assert erlang_c_workers(100 / 3600, 180.0, 20.0, 0.8) == 8


@settings(deadline=None, max_examples=60)
@given(
    rate=st.floats(0.01, 500),
    mean=st.floats(0.001, 2),
    seconds=st.floats(0, 2),
    share=st.floats(0.05, 0.999),
)
def test_erlang_c_workers_is_the_smallest_number(rate: float, mean: float, seconds: float, share: float) -> None:
    workers = erlang_c_workers(rate, mean, seconds, share)
    assert mmc_wait_exceeds(rate, mean, workers, seconds) <= 1 - share
    if workers - 1 > rate * mean:
        assert mmc_wait_exceeds(rate, mean, workers - 1, seconds) > 1 - share
    else:
        assert workers == math.floor(rate * mean) + 1


@pytest.mark.parametrize(("seconds", "share"), [(0.1, 0.95), (0.0, 0.5), (0.02, 0.99)])
def test_square_root_staffing_approaches_erlang_c(seconds: float, share: float) -> None:
    for load in (30, 100, 1_000, 10_000):
        exact = erlang_c_workers(load / 0.1, 0.1, seconds, share)
        assert abs(square_root_workers(load / 0.1, 0.1, seconds, share) - exact) <= 1


@settings(deadline=None, max_examples=100)
@given(
    rate=st.floats(0.01, 5_000),
    mean=st.floats(0.001, 2),
    seconds=st.floats(0, 2),
    share=st.floats(0.05, 0.999),
)
def test_square_root_staffing_solves_its_equation(rate: float, mean: float, seconds: float, share: float) -> None:
    load = rate * mean

    def beyond(beta: float) -> float:
        ratio = math.exp(min(float(log_ndtr(beta)) + beta**2 / 2 + math.log(2 * math.pi) / 2, 700.0))
        return -beta * math.sqrt(load) * seconds / mean - math.log1p(beta * ratio) - math.log(1 - share)

    exact = load + brentq(beyond, 0.0, 100.0, xtol=1e-14) * math.sqrt(load)
    workers = square_root_workers(rate, mean, seconds, share)
    assert exact - 1e-9 * max(exact, 1) <= workers <= exact + 1 + 1e-9 * max(exact, 1)


def test_erlang_c_workers_hold_the_objective_in_a_simulation() -> None:
    rng = np.random.default_rng(2)
    n, rate, mean = 400_000, 90.0, 0.1
    workers = erlang_c_workers(rate, mean, 0.05, 0.95)
    arrivals, services = np.cumsum(rng.exponential(1 / rate, n)), rng.exponential(mean, n)
    late = [
        float((replay(arrivals, services, System((count,))).wait > 0.05).mean()) for count in (workers - 1, workers)
    ]
    assert late[1] <= 0.05 < late[0]


def test_without_load_no_worker_is_needed() -> None:
    assert erlang_c_workers(0.0, 1.0, 0.1, 0.95) == square_root_workers(0.0, 1.0, 0.1, 0.95) == 0


@pytest.mark.parametrize(
    "values", [(-1, 1, 1, 0.5), (1, math.inf, 1, 0.5), (1, 1, -1, 0.5), (1, 1, 1, 1.0), (1, 1, 1, 0.0)]
)
def test_refuses_impossible_values(values: tuple[float, float, float, float]) -> None:
    for function in (erlang_c_workers, square_root_workers):
        with pytest.raises(ValueError, match="must be"):
            function(*values)
