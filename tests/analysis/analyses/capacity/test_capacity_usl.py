"""The universal scalability law is fitted to what it made, and names no peak it did not see."""

from __future__ import annotations

import math

import numpy as np
import pytest
from capacity_support import FLOAT
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize
from sojourn.analyses.capacity.knee import isotonic
from sojourn.analyses.capacity.usl import fit_usl, least_squares, nonnegative_solution, usl_throughput


def noisy(sigma: float, kappa: float, most: float, *, seed: int, noise: float = 0.02) -> tuple[FLOAT, FLOAT]:
    concurrency = np.linspace(1, most, 60)
    rng = np.random.default_rng(seed)
    return concurrency, usl_throughput(concurrency, 100, sigma, kappa) * (1 + noise * rng.standard_normal(60))


@pytest.mark.parametrize(("sigma", "kappa"), [(0.05, 0.0008), (0.2, 0.002), (0.01, 0.0001)])
def test_known_coefficients_lie_in_their_intervals(sigma: float, kappa: float) -> None:
    held = {"throughput_of_one": 0, "sigma": 0, "kappa": 0}
    for seed in range(10):
        fitted = fit_usl(*noisy(sigma, kappa, 80, seed=seed), resamples=100)
        for name, truth in {"throughput_of_one": 100.0, "sigma": sigma, "kappa": kappa}.items():
            low, high = fitted.intervals[name]
            held[name] += low <= truth <= high
    assert min(held.values()) >= 7  # of 10, at 95 %


def test_the_peak_is_where_it_is() -> None:
    fitted = fit_usl(*noisy(0.05, 0.0008, 80, seed=1), resamples=100)
    assert fitted.peak is not None
    assert fitted.peak[0] == pytest.approx(math.sqrt(0.95 / 0.0008), rel=0.1)
    assert fitted.peak[1] == pytest.approx(float(usl_throughput(np.array([34.46]), 100, 0.05, 0.0008)[0]), rel=0.03)
    assert fitted.r_squared > 0.9


def test_a_peak_beyond_what_was_seen_is_not_named() -> None:
    fitted = fit_usl(*noisy(0.05, 0.0008, 20, seed=1, noise=0.001), resamples=100)
    assert fitted.unidentified == ()
    assert fitted.peak is None
    assert "beyond the observed 20" in str(fitted.peak_reason)


def test_linear_growth_has_neither_contention_nor_coherency() -> None:
    fitted = fit_usl(*noisy(0, 0, 30, seed=2), resamples=100)
    assert fitted.unidentified == ("sigma", "kappa")
    assert fitted.peak is None
    assert "kappa is not significant" in str(fitted.peak_reason)


@settings(deadline=None, max_examples=20)
@given(st.randoms(use_true_random=False), st.floats(0.01, 1000))
def test_the_fit_does_not_depend_on_order_and_scales_with_throughput(random: object, factor: float) -> None:
    concurrency, throughput = noisy(0.1, 0.001, 50, seed=4)
    order = list(range(60))
    random.shuffle(order)  # type: ignore[attr-defined]
    one = fit_usl(concurrency, throughput, resamples=2)
    other = fit_usl(concurrency[order], throughput[order] * factor, resamples=2)
    assert other.throughput_of_one == pytest.approx(one.throughput_of_one * factor, rel=1e-3)
    assert (other.sigma, other.kappa) == (pytest.approx(one.sigma, rel=1e-2), pytest.approx(one.kappa, rel=1e-2))


@pytest.mark.parametrize("seed", range(20))
def test_the_solvers_reach_the_minimum_that_scipys_reach(seed: int) -> None:
    rng = np.random.default_rng(seed)
    concurrency = rng.uniform(0.3, rng.choice([5, 50, 300]), int(rng.integers(6, 100)))
    sigma, kappa = rng.choice([0.0, 0.05, 0.9]), rng.choice([0.0, 1e-5, 0.05])
    throughput = usl_throughput(concurrency, 1.0, sigma, kappa) * np.exp(rng.normal(0, 0.2, len(concurrency)))
    pairs = concurrency * (concurrency - 1)
    low, high = np.array([1e-9, 0, 0]), np.array([np.inf, 1, np.inf])

    def residuals(parameters: FLOAT) -> tuple[FLOAT, FLOAT]:
        one, serial, coherency = parameters
        below = np.maximum(1 + serial * (concurrency - 1) + coherency * pairs, 1e-6)
        slope = -one * concurrency / below**2
        return one * concurrency / below - throughput, np.column_stack(
            [concurrency / below, slope * (concurrency - 1), slope * pairs]
        )

    start = np.array([throughput.max(), 0.1, 1e-4])
    squares = float((residuals(least_squares(residuals, start, low, high))[0] ** 2).sum())
    theirs = optimize.least_squares(
        lambda each: residuals(each)[0], start, jac=lambda each: residuals(each)[1], bounds=(low, high),
        x_scale=[1.0, 1.0, 1e-3], xtol=1e-14, ftol=1e-14, gtol=1e-14,
    )  # fmt: skip
    assert squares <= 2 * theirs.cost * (1 + 1e-6)
    terms = np.column_stack([np.ones_like(concurrency), concurrency - 1, pairs])
    exact, _ = optimize.nnls(terms, concurrency / throughput)
    assert nonnegative_solution(terms, concurrency / throughput) == pytest.approx(exact, rel=1e-6, abs=1e-9)


def test_isotonic_regression_is_scipys() -> None:
    rng = np.random.default_rng(5)
    for count in range(1, 40):
        values, weights = np.round(rng.normal(0, 1, count) + 0.1 * np.arange(count), 1), rng.uniform(0.1, 3, count)
        exact = optimize.isotonic_regression(values, weights=weights).x
        assert isotonic(values, weights) == pytest.approx(exact, abs=1e-12)
