"""The law of speed of services: its likelihood, its estimate, and the interval of a capacity."""

from __future__ import annotations

import numpy as np
import pytest
from sojourn.queueing.sharing import replay_shared
from sojourn.queueing.speed_laws import NOTHING_SHARED, SpeedLaw
from sojourn.queueing.system import System
from sojourn.timeline.contention.estimate import CORES, LOCK, NONE, coarse_gain, estimated, quick_gain
from sojourn.timeline.contention.likelihood import Likelihood
from sojourn.timeline.contention.load_dependence import NOTICED, SUSPECTED
from sojourn.timeline.contention.shared_parts import SharedParts

N = 4000


def parts_of(
    law: SpeedLaw, workers: int, rate: float, seed: int, *, constant: bool = False
) -> tuple[SharedParts, np.ndarray]:
    rng = np.random.default_rng(seed)
    demand = np.full(N, 0.1) if constant else rng.exponential(0.1, N)
    arrivals, none = np.cumsum(rng.exponential(1 / rate, N)), np.zeros(N)
    slowed = replay_shared(arrivals, (none, demand, none), System((workers,), balancer="shared_queue"), (law,))
    begin = slowed.outcome.start
    order = np.argsort(begin, kind="stable")
    return SharedParts.of(begin[order], (begin + slowed.lasted)[order], workers), demand[order]


def test_demands_under_the_true_law_are_the_true_ones() -> None:
    law = SpeedLaw(0.7, 2.0)
    parts, demand = parts_of(law, 6, 18, 1)
    assert parts.demands_under(law) == pytest.approx(demand, rel=1e-6, abs=1e-9)
    assert parts.demands_under(NOTHING_SHARED) == pytest.approx(parts.lasted)


def test_the_likelihood_does_not_depend_on_the_scale_of_speeds() -> None:
    parts, _ = parts_of(SpeedLaw(1.0, 2.0), 4, 15, 2)
    route, usual = np.zeros(N, np.int64), np.ones(N)
    speeds = SpeedLaw(1.0, 2.0).speeds(4)
    likelihood = Likelihood(parts, route, usual)
    whole = likelihood.log_of(speeds)
    assert likelihood.log_of(speeds / 3) == pytest.approx(whole, abs=1e-6)
    assert likelihood.log_of(np.ones(5)) < whole - 100


def test_capacities_are_in_their_intervals() -> None:
    """Of 95 % intervals, 2 of 18 may miss: fewer than 1 in 17 such tests would have more by chance."""
    inside = []
    for capacity, workers in ((1.0, 3), (2.0, 4), (3.0, 8)):
        for seed in range(6):
            parts, _ = parts_of(SpeedLaw(1.0, capacity), workers, 0.75 * capacity / 0.1, seed)
            estimate = estimated(Likelihood(parts, np.zeros(N, np.int64), np.ones(N)))
            assert estimate.best.family == CORES
            assert estimate.best.law.capacity == pytest.approx(capacity, rel=0.12)
            assert estimate.gain > 50
            inside.append(estimate.low <= capacity <= estimate.high)
    assert sum(inside) >= len(inside) - 2


def test_constant_services_show_the_capacity_to_a_percent() -> None:
    parts, _ = parts_of(SpeedLaw(1.0, 2.0), 5, 14, 3, constant=True)
    estimate = estimated(Likelihood(parts, np.zeros(N, np.int64), np.ones(N)))
    assert estimate.best.law.capacity == pytest.approx(2.0, rel=0.01)


def test_a_lock_is_distinguished_from_cores() -> None:
    parts, _ = parts_of(SpeedLaw(0.5, 1.0), 6, 14, 4)
    estimate = estimated(Likelihood(parts, np.zeros(N, np.int64), np.ones(N)))
    assert estimate.best.family == LOCK
    assert estimate.best.law.share == pytest.approx(0.5, abs=0.07)
    laws = [each.law for each in estimate.plausible()]
    assert laws[0] == estimate.best.law
    assert len(laws) > 2


@pytest.mark.parametrize("seed", range(8))
def test_services_of_their_own_share_nothing(seed: int) -> None:
    parts, _ = parts_of(NOTHING_SHARED, 5, 40, seed)
    route, usual = np.zeros(N, np.int64), np.ones(N)
    estimate = estimated(Likelihood(parts, route, usual))
    assert estimate.gain < SUSPECTED
    if coarse_gain(Likelihood(parts, route, usual)) <= NOTICED:
        assert estimate.best.family == NONE or estimate.gain < SUSPECTED / 2


@pytest.mark.parametrize(
    "law",
    [
        SpeedLaw(0.5, 6.0), SpeedLaw(0.1, 1.0), SpeedLaw(0.3, 2.0), SpeedLaw(0.8, 8.0), SpeedLaw(coherence=0.003),
        SpeedLaw(contention=0.005, coherence=0.001),
    ],
)  # fmt: skip
def test_what_is_shared_little_is_noticed_by_a_few_laws(law: SpeedLaw) -> None:
    """What is looked for at first is not lost: laws of a few kinds are nearly as likely as the likeliest of all."""
    for seed in range(2):
        parts, _ = parts_of(law, 14, 90, seed)
        likelihood = Likelihood(parts, np.zeros(N, np.int64), np.ones(N))
        gain = estimated(likelihood).gain
        assert coarse_gain(likelihood) > gain - 2
        assert quick_gain(likelihood) > gain - 0.5
        if gain > SUSPECTED:
            assert coarse_gain(likelihood) > NOTICED
