"""The confidence band of a distribution: its coverage by simulation, and its shape."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats
from sojourn.analyses.split.bands import ENOUGH, LEAST, NORMAL, STRETCHES, band_of, quantile_bands, share_bands
from sojourn.model.arrays import Floats
from sojourn.model.statistics import share_interval

LEVELS = np.array([0.5, 0.9, 0.97])
RUNS = 250


def independent(rng: np.random.Generator, count: int) -> Floats:
    return rng.exponential(size=count)


def queue(load: float) -> Callable[[np.random.Generator, int], Floats]:
    """Sojourn times of M/M/1 (mean service ``load``, an arrival per second) by Lindley's recursion (1952)."""

    def sojourns(rng: np.random.Generator, count: int) -> Floats:
        warm = 2_000
        services, gaps = rng.exponential(load, count + warm), rng.exponential(1.0, count + warm)
        sums = np.concatenate([[0.0], np.cumsum(services[:-1] - gaps[1:])])
        waits = sums - np.minimum.accumulate(sums)
        return (waits + services)[warm:]

    return sojourns


def coverage(make: Callable[[np.random.Generator, int], Floats], true: Floats, count: int, seed: int) -> Floats:
    """Return how often the band contains the true share beyond, and the true quantile, at each of ``LEVELS``."""
    rng = np.random.default_rng(seed)
    hits = np.zeros((2, len(LEVELS)))
    for _ in range(RUNS):
        values = make(rng, count)
        _, low, high = share_bands(values, true)
        assert not np.isnan(low).any()
        hits[0] += (low <= 1 - LEVELS) & (high >= 1 - LEVELS)
        begins, ends = quantile_bands(values, LEVELS)
        hits[1] += (begins <= true) & (true <= ends)
    return hits / RUNS


def exponential_quantiles(rate: float) -> Floats:
    return -np.log(1 - LEVELS) / rate


def test_covers_the_truth_of_independent_requests() -> None:
    shares = coverage(independent, exponential_quantiles(1.0), 2_000, seed=1)
    assert (shares >= 0.93).all(), shares
    assert (shares <= 0.995).all(), shares  # it is no wider than it has to be


@pytest.mark.parametrize(("load", "least"), [(0.5, 0.91), (0.8, 0.85)])
def test_covers_the_truth_of_requests_that_wait_for_each_other(load: float, least: float) -> None:
    """M/M/1: the sojourn times are exponential with rate 1/S - 1 (Erlang 1917), and far from independent."""
    shares = coverage(queue(load), exponential_quantiles(1 / load - 1), 20_000, seed=2)
    assert (shares >= least).all(), shares


def test_a_band_for_independent_requests_would_not_cover_them() -> None:
    rng = np.random.default_rng(3)
    true = float(exponential_quantiles(1 / 0.8 - 1)[1])
    hits = 0
    for _ in range(RUNS):
        share = np.array([(queue(0.8)(rng, 20_000) >= true).mean()])
        low, high = share_interval(share, np.array([20_000.0]), NORMAL)
        hits += low[0] <= 0.1 <= high[0]
    assert hits / RUNS < 0.5


@pytest.mark.parametrize(("count", "share"), [(10, 0.3), (400, 0.02), (5_000, 0.5)])
def test_the_interval_of_a_share_is_wilson_s(count: int, share: float) -> None:
    low, high = share_interval(np.array([share]), np.array([float(count)]), NORMAL)
    expected = stats.binomtest(round(share * count), count).proportion_ci(method="wilson")
    assert (low[0], high[0]) == (pytest.approx(expected.low), pytest.approx(expected.high))


def test_the_shares_are_those_of_the_values() -> None:
    values = np.random.default_rng(4).lognormal(size=5_000)
    band = band_of(values)
    for row in band.gather_every(20).iter_rows(named=True):
        assert row["exceeding"] == pytest.approx((values >= row["seconds"]).mean())
    drawn = band.drop_nulls()
    assert (drawn["low"] <= drawn["exceeding"]).all()
    assert (drawn["exceeding"] <= drawn["high"]).all()
    assert (drawn["low"] > 0).all()


def test_ends_where_too_few_stretches_have_a_request() -> None:
    rng = np.random.default_rng(5)
    values = rng.exponential(0.1, 4_000)
    values[100:160] = 10.0  # one episode: a single stretch of the log
    _, low, high = share_bands(values, np.array([0.05, 0.3, 5.0]))
    assert np.isnan(low).tolist() == np.isnan(high).tolist() == [False, False, True]
    begins, ends = quantile_bands(values, np.array([0.5, 0.995]))
    assert 0 < begins[0] < ends[0] < 0.1
    assert np.isnan(begins[1])
    assert np.isnan(ends[1])
    assert STRETCHES >= 2 * ENOUGH


@pytest.mark.parametrize("count", [0, 1, LEAST - 1])
def test_few_requests_have_no_band(count: int) -> None:
    band = band_of(np.arange(1.0, count + 1))
    assert band["low"].null_count() == band["high"].null_count() == len(band)
    assert np.isnan(quantile_bands(np.arange(1.0, count + 1), np.array([0.5]))).all()


def test_values_that_are_all_alike() -> None:
    band = band_of(np.full(1_000, 2.0))
    assert band.rows() == [(2.0, 1.0, None, None)]
    assert np.isnan(quantile_bands(np.full(1_000, 2.0), np.array([0.5]))).all()
