"""Workers from arrivals that are counted when they arrive: vectors, and what must hold at any scale."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sojourn.queueing.live_staffing import (
    Autoscaler,
    ServiceTimes,
    base_workers,
    live_workers,
    since_restart,
    sure_rate,
)
from sojourn.queueing.staffing import erlang_c_workers

SERVICE = ServiceTimes(0.1, 1.0)
AUTOSCALER = Autoscaler(10.0, 0.3)


def counted(arrivals: list[int], every: float = 0.2) -> list[tuple[float, float]]:
    """Samples after each number of arrivals, the first at 0."""
    return [(number * every, float(total)) for number, total in enumerate(np.cumsum([0, *arrivals]).tolist())]


STEADY, JUMP, NONE = counted([9] * 10), counted([4] * 10 + [16] * 3), counted([0] * 10)


def test_rate_of_a_steady_count_is_that_of_the_whole_window() -> None:
    assert sure_rate(STEADY, 2.0) == pytest.approx(37.885, abs=5e-4)
    assert sure_rate(STEADY, 2.0, sure=0.0) == pytest.approx(45.0)


def test_rate_after_a_jump_is_that_of_a_short_window() -> None:
    assert sure_rate(JUMP, 2.0) == pytest.approx(62.679, abs=5e-4)
    assert sure_rate(JUMP, 2.0, sure=0.0) == pytest.approx(80.0)


def test_count_of_a_restarted_server_begins_at_zero() -> None:
    samples = [(0.0, 100.0), (1.0, 150.0), (2.0, 3.0), (3.0, 53.0)]
    arrived = np.array([count for _, count in samples])
    assert since_restart(arrived) == 2
    assert sure_rate(samples[since_restart(arrived) :], 10.0) == pytest.approx(39.393, abs=5e-4)
    assert since_restart(np.array([count for _, count in STEADY])) == 0


def test_rate_needs_two_samples_and_is_never_negative() -> None:
    assert sure_rate([], 2.0) is None
    assert sure_rate([(0.0, 5.0)], 2.0) is None
    assert sure_rate([(0.0, 5.0), (10.0, 6.0)], 2.0) == 0.0, "the last two are used, however old"
    assert sure_rate([(0.0, 5.0), (10.0, 4.0)], 20.0) == 0.0


@pytest.mark.parametrize(
    ("cs2", "workers"), [(1.0, [2, 3, 4, 7, 11, 83, 803]), (4.0, [3, 3, 5, 8, 12, 86, 807])], ids=["1", "4"]
)
def test_base_workers(cs2: float, workers: list[int]) -> None:
    loads = (0.5, 1.0, 2.0, 4.5, 8.0, 80.0, 800.0)
    assert [base_workers(load, ServiceTimes(0.1, cs2), 0.1, 0.95) for load in loads] == workers


@given(st.floats(0.01, 200.0), st.floats(0.01, 2.0), st.floats(0.5, 0.999))
def test_base_workers_of_exponential_services_are_those_of_erlang_c(load: float, seconds: float, share: float) -> None:
    expected = max(erlang_c_workers(load / 0.1, 0.1, seconds, share), math.floor(load) + 1)
    assert base_workers(load, SERVICE, seconds, share) == expected


@pytest.mark.parametrize(
    ("samples", "in_progress", "workers", "needed"),
    [(STEADY, 5, 7, 6), (JUMP, 30, 4, 12), (JUMP, None, 4, 9), (STEADY, 40, 7, 8), (NONE, 0, 4, 0), (NONE, 40, 4, 1)],
    ids=["steady", "jump", "a jump without a count", "steady with a queue", "no arrivals", "no arrivals, and a queue"],
)
def test_live_workers(
    samples: list[tuple[float, float]], in_progress: float | None, workers: float, needed: int
) -> None:
    rate = sure_rate(samples, 2.0)
    assert rate is not None
    assert live_workers(rate, in_progress, workers, SERVICE, 0.1, 0.95, AUTOSCALER) == needed


def test_unknown_workers_are_about_those_of_the_load() -> None:
    assert live_workers(80.0, 8.0, None, SERVICE, 0.1, 0.95, Autoscaler(10.0)) == 11
    assert live_workers(80.0, 50.0, None, SERVICE, 0.1, 0.95, Autoscaler(10.0)) > 11


def test_more_of_everything_needs_workers_nearer_to_the_load() -> None:
    per_load = []
    for times in (1, 10, 100, 1_000):
        needed = live_workers(60.0 * times, 20.0 * times, 4.0 * times, SERVICE, 0.1, 0.95, AUTOSCALER)
        per_load.append(needed / (6.0 * times))
    assert per_load == sorted(per_load, reverse=True)
    assert 1.0 < per_load[-1] < 1.3


def test_service_without_a_duration_needs_no_worker() -> None:
    assert live_workers(100.0, 3.0, 2.0, ServiceTimes(0.0), 0.1, 0.95, AUTOSCALER) == 0
