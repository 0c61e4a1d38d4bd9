"""Schedules: the configured rate, the right kind of gaps, the same instants for the same seed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sojourn_lab.load.schedules import (
    constant_instants,
    diurnal_instants,
    poisson_instants,
    ramp_instants,
    service_times,
    stepped_instants,
)
from sojourn_lab.scenario.load import DiurnalLoad, StepsLoad, expected_requests

rates = st.floats(0.1, 500.0)
horizons = st.floats(0.1, 20.0)


def seeded(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


@given(rates, horizons)
def test_constant_gaps_are_all_equal_and_the_count_is_rate_times_time(rate: float, horizon: float) -> None:
    instants = constant_instants(rate, horizon)
    assert abs(len(instants) - rate * horizon) <= 1.0
    assert instants[0] == 0.0
    assert instants[-1] < horizon
    assert np.allclose(np.diff(instants), 1.0 / rate)


def test_a_product_that_floats_round_up_gives_no_extra_instant() -> None:
    assert 3.0000000000000004 == 0.1 * 3 * 10  # what the allowance is for
    assert len(constant_instants(10.0, 0.1 * 3)) == 3


def test_poisson_gaps_are_exponential() -> None:
    instants = poisson_instants(50.0, 400.0, seeded())
    gaps = np.diff(instants, prepend=0.0)
    assert stats.kstest(gaps, stats.expon(scale=1.0 / 50.0).cdf).pvalue > 0.01
    # The same test refuses gaps of the same mean that are not exponential.
    assert stats.kstest(np.full(len(gaps), 1.0 / 50.0), stats.expon(scale=1.0 / 50.0).cdf).pvalue < 1e-6


def test_poisson_gaps_are_independent_and_counts_spread_like_their_mean() -> None:
    instants = poisson_instants(100.0, 1000.0, seeded(2))
    gaps = np.diff(instants)
    assert abs(np.corrcoef(gaps[:-1], gaps[1:])[0, 1]) < 0.02
    counts = np.bincount(instants.astype(int), minlength=1000)
    assert counts.mean() == pytest.approx(100.0, rel=0.02)
    assert counts.var() == pytest.approx(100.0, rel=0.15)


@given(rates, horizons, st.integers(0, 2**32))
def test_poisson_instants_are_sorted_inside_the_horizon_and_repeatable(rate: float, horizon: float, seed: int) -> None:
    instants = poisson_instants(rate, horizon, seeded(seed))
    assert np.all(np.diff(instants) >= 0.0)
    assert np.all((instants >= 0.0) & (instants < horizon))
    assert np.array_equal(instants, poisson_instants(rate, horizon, seeded(seed)))
    # Six standard deviations of a Poisson count, and one for tiny ones.
    assert abs(len(instants) - rate * horizon) <= 6.0 * np.sqrt(rate * horizon) + 6.0


def test_another_seed_gives_other_instants() -> None:
    assert not np.array_equal(poisson_instants(50.0, 1.0, seeded(1)), poisson_instants(50.0, 1.0, seeded(2)))


@given(
    st.floats(0.0, 300.0),
    st.floats(0.0, 300.0).filter(lambda rate: rate > 0.5),
    st.booleans(),
    horizons,
    st.floats(0.0, 1.0),
)
def test_a_ramp_has_had_its_integral_of_arrivals_at_every_instant(
    low: float, high: float, downwards: bool, horizon: float, share: float
) -> None:
    first, last = (high, low) if downwards else (low, high)
    instants = ramp_instants(first, last, horizon)
    t = share * horizon
    integral = first * t + (last - first) * t * t / (2.0 * horizon)
    assert abs(np.count_nonzero(instants <= t) - integral) <= 1.0 + 1e-6
    assert np.all(np.diff(instants) >= 0.0)
    assert not np.any(np.isnan(instants))


def test_a_level_ramp_is_a_constant_schedule() -> None:
    assert np.allclose(ramp_instants(20.0, 20.0, 3.0), constant_instants(20.0, 3.0))


def test_service_times_have_their_distribution() -> None:
    assert set(service_times(0.1, "constant", 5, seeded())) == {0.1}
    drawn = service_times(0.1, "exponential", 20_000, seeded())
    assert stats.kstest(drawn, stats.expon(scale=0.1).cdf).pvalue > 0.01
    with pytest.raises(ValueError, match="unknown distribution of service times: 'normal'"):
        service_times(0.1, "normal", 1, seeded())


def test_a_rate_that_changes_changes_at_its_instant() -> None:
    load = StepsLoad(rates=[200.0, 0.0, 600.0], at=[3.0, 5.0])
    instants = stepped_instants(load.spells(2.0, 8.0), np.random.default_rng(4))
    counts = [int(((begin <= instants) & (instants < end)).sum()) for begin, end in ((0, 5), (5, 7), (7, 10))]
    assert counts[1] == 0
    # Five standard deviations of a Poisson count.
    assert counts[0] == pytest.approx(1000, abs=5 * 1000**0.5)
    assert counts[2] == pytest.approx(1800, abs=5 * 1800**0.5)
    assert (np.diff(instants) >= 0).all()
    assert expected_requests(load, 2.0, 8.0) == pytest.approx(2800.0)


def test_a_diurnal_rate_follows_a_cosine() -> None:
    instants = diurnal_instants(100.0, 500.0, 20.0, 4.0, 24.0, seeded(6))
    assert np.all(np.diff(instants) >= 0.0)
    assert instants[-1] < 24.0
    quarters = np.histogram(instants, [4.0, 9.0, 14.0, 19.0, 24.0])[0]
    # The integral of the rate over a quarter that ends at the peak: 5 s of the mean, and half of the swing's area.
    low, high = 5.0 * 300.0 - 200.0 * 20.0 / (2.0 * np.pi), 5.0 * 300.0 + 200.0 * 20.0 / (2.0 * np.pi)
    for count, expected in zip(quarters, (low, high, high, low), strict=True):
        assert count == pytest.approx(expected, abs=5.0 * expected**0.5)
    # Before the period begins the rate falls towards the lowest point.
    assert np.count_nonzero(instants < 2.0) > np.count_nonzero((instants >= 2.0) & (instants < 4.0))


@given(st.floats(0.0, 50.0), st.floats(50.0, 100.0), st.floats(0.0, 10.0), st.floats(1.0, 40.0))
def test_expected_requests_of_a_diurnal_load_are_its_integral(
    low: float, high: float, warmup: float, duration: float
) -> None:
    load = DiurnalLoad(low=low, high=high, period=30.0)
    times = np.linspace(-warmup, duration, 20_001)
    rates = (low + high) / 2.0 - (high - low) / 2.0 * np.cos(2.0 * np.pi * times / 30.0)
    assert expected_requests(load, warmup, duration) == pytest.approx(np.trapezoid(rates, times), rel=1e-4, abs=1e-3)


def test_a_diurnal_load_that_is_higher_at_night_is_refused() -> None:
    with pytest.raises(ValueError, match="must not exceed"):
        DiurnalLoad(low=2.0, high=1.0, period=10.0)
