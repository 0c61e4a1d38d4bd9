"""Closed forms against figures of the literature, against sums, and against each other."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sojourn.queueing import theory


def erlang_b_by_sum(load: float, workers: int) -> float:
    terms = [load**k / math.factorial(k) for k in range(workers + 1)]
    return terms[-1] / sum(terms)


@given(st.floats(0.01, 30), st.integers(1, 40))
def test_erlang_b_equals_its_sum(load: float, workers: int) -> None:
    assert theory.erlang_b(load, workers) == pytest.approx(erlang_b_by_sum(load, workers), rel=1e-9)


def test_erlang_formulas_match_known_values() -> None:
    # Offered 2 erlangs to 3: B = 4/19, C = 4/9.
    assert theory.erlang_b(2, 3) == pytest.approx(4 / 19)
    assert theory.erlang_c(2, 3) == pytest.approx(4 / 9)
    assert theory.erlang_c(3, 3) == 1
    assert theory.erlang_b(10_000, 10_100) < 1  # factorials of that size overflow


def test_waits_match_known_values() -> None:
    assert theory.utilisation(8, 0.1) == pytest.approx(0.8)
    assert theory.mm1_wait(8, 0.1) == pytest.approx(0.4)
    assert theory.md1_wait(8, 0.1) == pytest.approx(0.2)
    assert theory.mg1_wait(8, 0.1, 2.0) == pytest.approx(0.6)
    assert theory.mmc_wait(16, 0.1, 2) == pytest.approx(0.1 * 0.64 / 0.36)  # M/M/2: rho² S / (1 - rho²)
    assert theory.kingman_wait(8, 0.1, 2.0, 0.5) == pytest.approx(0.5)
    assert theory.kingman_bound(8, 0.1, 1.0, 1.0) == pytest.approx((1 / 8 + 8 * 0.01) / 0.4)


@given(st.floats(0.01, 0.99), st.integers(1, 30), st.floats(0.001, 10))
def test_mean_and_quantiles_are_consistent_with_the_tail(rho: float, workers: int, s: float) -> None:
    rate = rho * workers / s
    mean = theory.mmc_wait(rate, s, workers)
    # The tail is C exp(-t/τ): its integral is the mean.
    assert mean == pytest.approx(theory.erlang_c(rho * workers, workers) * s / (workers * (1 - rho)))
    for quantile in (0.0, 0.5, 0.9, 0.999):
        wait = theory.mmc_wait_quantile(rate, s, workers, quantile)
        exceeding = theory.mmc_wait_exceeds(rate, s, workers, wait)
        assert exceeding == pytest.approx(min(1 - quantile, theory.erlang_c(rho * workers, workers)))
    assert theory.allen_cunneen_wait(rate, s, workers, 1, 1) == pytest.approx(mean)
    assert theory.kingman_bound(rho / s, s, 1, 1) >= theory.kingman_wait(rho / s, s, 1, 1)


@pytest.mark.parametrize("rate", [10.0, 12.0])
def test_wait_is_infinite_without_a_steady_state(rate: float) -> None:
    assert theory.mm1_wait(rate, 0.1) == math.inf
    assert theory.mg1_wait(rate, 0.1, 1) == math.inf
    assert theory.kingman_wait(rate, 0.1, 1, 1) == math.inf
    assert theory.kingman_bound(rate, 0.1, 1, 1) == math.inf
    assert theory.mmc_wait_quantile(rate, 0.1, 1, 0.5) == math.inf
    assert theory.mmc_wait_exceeds(rate, 0.1, 1, 5) == 1


def test_limited_capacity_matches_known_values() -> None:
    # M/M/1/4 at rho 0.8: p(n) = 0.8^n (1 - 0.8) / (1 - 0.8^5).
    p = [0.8**n * 0.2 / (1 - 0.8**5) for n in range(5)]
    figures = theory.mmck(8, 0.1, 1, 3)
    assert figures.blocking == pytest.approx(p[4])
    assert figures.mean_waiting == pytest.approx(p[2] + 2 * p[3] + 3 * p[4])
    assert figures.mean_wait == pytest.approx(figures.mean_waiting / (8 * (1 - p[4])))
    assert theory.mmck(20, 0.1, 3, 0).blocking == pytest.approx(theory.erlang_b(2, 3))
    assert theory.mmck(1000, 0.1, 2, 50).utilisation == pytest.approx(1)
    assert theory.mmck(16, 0.1, 2, 400).mean_wait == pytest.approx(theory.mmc_wait(16, 0.1, 2))


def test_closed_loop_without_think_time_has_constant_throughput() -> None:
    for clients in (2, 4, 8):
        figures = theory.closed_loop(clients, 0.1, 2)
        assert figures.throughput == pytest.approx(20)
        assert figures.mean_response == pytest.approx(clients * 0.1 / 2)
        assert figures.mean_wait == pytest.approx(clients * 0.1 / 2 - 0.1)
    assert theory.closed_loop(1, 0.1, 2).mean_wait == pytest.approx(0)


def test_closed_loop_with_think_time_matches_known_values() -> None:
    # One worker, two clients: p(n) ~ 1, 2a, 2a² with a = S/Z.
    a = 0.1 / 0.4
    busy = 1 - 1 / (1 + 2 * a + 2 * a * a)
    figures = theory.closed_loop(2, 0.1, 1, 0.4)
    assert figures.utilisation == pytest.approx(busy)
    assert figures.mean_response == pytest.approx(2 / (busy / 0.1) - 0.4)
    alone = theory.closed_loop(1, 0.1, 1, 0.4)
    assert alone.mean_wait == pytest.approx(0)


@pytest.mark.parametrize(
    "invalid",
    [
        lambda: theory.mm1_wait(-1, 0.1),
        lambda: theory.mg1_wait(1, 0.1, math.nan),
        lambda: theory.mmc_wait(1, 0.1, 0),
        lambda: theory.erlang_b(-1, 2),
        lambda: theory.erlang_c(1, 0),
        lambda: theory.mmck(1, 0.1, 1, -1),
        lambda: theory.mmc_wait_quantile(1, 0.1, 1, 1),
        lambda: theory.closed_loop(0, 0.1),
        lambda: theory.allen_cunneen_wait(1, math.inf, 1, 1, 1),
    ],
)
def test_rejects_invalid_arguments(invalid: object) -> None:
    with pytest.raises(ValueError, match=r"(mean_service|arrival_rate|cs2|workers|load|places|quantile|clients)"):
        invalid()
