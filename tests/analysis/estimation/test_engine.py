"""The inferred queue of simulated backends: waits, workers, verdicts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sojourn.estimation.engine import infer
from sojourn.estimation.inferred import INFERRED, LOWER_BOUND, REFUSED, Inference
from sojourn.estimation.kernels import depth_on_arrival, older_inside, service_times
from studies.inference import simulators as simulate
from studies.inference.accuracy import first_come_first_served, moving, others
from studies.inference.simulators import Logged

REQUESTS = 12_000


def inferred(log: Logged, **options: float) -> Inference:
    return infer(log.arrival, log.departure, log.routes, **options)  # type: ignore[arg-type]


def served(workers: int, utilisation: float, kind: str = "exponential", seed: int = 1, count: int = REQUESTS) -> Logged:
    rng = np.random.default_rng(seed)
    service, routes = simulate.services(rng, count, kind)
    arrival = simulate.poisson(rng, service, workers, utilisation)
    return simulate.logged(rng, arrival, simulate.first_come(arrival, service, workers), routes)


gaps = st.lists(st.integers(0, 30), min_size=1, max_size=60)


@settings(deadline=None, max_examples=150)
@given(gaps, st.data(), st.integers(1, 5))
def test_service_times_are_exact_with_exact_instants(between: list[int], data: st.DataObject, workers: int) -> None:
    arrival = np.cumsum(np.array(between, np.float64))
    lengths = data.draw(st.lists(st.integers(1, 50), min_size=len(arrival), max_size=len(arrival)))
    service = np.array(lengths, np.float64)
    _, departure = simulate.first_come(arrival, service, workers)
    number = np.full(len(arrival), workers)
    assert service_times(arrival, departure, np.sort(departure), number).tolist() == service.tolist()


@settings(deadline=None, max_examples=150)
@given(gaps, st.data(), st.integers(0, 3))
def test_counts_depth_and_overtaken_requests_as_a_plain_loop_does(
    between: list[int], data: st.DataObject, margin: int
) -> None:
    arrival = np.cumsum(np.array(between, np.float64))
    lasted = data.draw(st.lists(st.integers(0, 60), min_size=len(arrival), max_size=len(arrival)))
    departure = arrival + np.array(lasted, np.float64)
    ordered = np.sort(departure)
    inside = [
        sum(arrival[j] < arrival[k] - margin and departure[j] > departure[k] + margin for j in range(k))
        for k in range(len(arrival))
    ]
    assert older_inside(arrival, departure, ordered, float(margin)).tolist() == inside
    before = [max(k - int((departure <= arrival[k]).sum()), 0) for k in range(len(arrival))]
    assert depth_on_arrival(arrival, ordered).tolist() == before


def test_waits_and_workers_of_first_come_first_served_backends() -> None:
    """The goals: mean wait within 2 % of R where it is inferred; workers right in 95 % at 0.7 and more, up to 16."""
    outcomes = list(first_come_first_served(7, REQUESTS))
    accepted = [each for each in outcomes if each.verdict == INFERRED]
    assert len(accepted) >= 0.93 * len(outcomes)
    assert np.quantile([abs(each.error) for each in accepted], 0.95) < 0.01
    assert max(abs(each.error) for each in accepted) < 0.05
    loaded = [each for each in accepted if each.utilisation >= 0.7 and each.workers <= 16]
    assert np.mean([each.right for each in loaded]) >= 0.95
    assert np.mean([each.covered for each in accepted]) >= 0.97
    assert np.quantile([abs(each.p99_error) for each in accepted], 0.95) < 0.006


def test_no_other_system_is_accepted_with_a_material_error() -> None:
    outcomes = list(others(7, REQUESTS))
    assert [each for each in outcomes if each.wrong] == []
    # A lower bound is one.
    bounds = [each for each in outcomes if each.verdict == LOWER_BOUND]
    assert bounds
    assert max(each.error for each in bounds) < 0.02
    # Where the order of service matters, it is refused.
    order = [each for each in outcomes if "hidden" not in each.system and "timed out" not in each.system]
    busy = [each for each in order if each.utilisation > 0.5]
    assert {each.verdict for each in busy if each.workers < 16} == {REFUSED}


@pytest.mark.parametrize(("before", "after"), [(2, 4), (1, 2), (8, 4)])
def test_a_changed_number_of_workers_is_inferred_window_by_window(before: int, after: int) -> None:
    rng = np.random.default_rng(5)
    log = moving(rng, 2 * REQUESTS, before, after)
    result = inferred(log)
    assert result.verdict == INFERRED
    assert [window.workers for window in result.windows] == [before, after]
    assert result.windows[0].end <= result.windows[1].begin
    assert abs(result.wait.mean() - log.wait.mean()) < 0.02 * log.response.mean()
    assert inferred(served(4, 0.85, count=2 * REQUESTS)).windows == ()


def test_the_figure_without_a_model_agrees() -> None:
    log = served(2, 0.5)
    result = inferred(log)
    assert result.excess is not None
    mean, error = result.excess
    assert abs(mean - log.wait.mean()) < 3 * error
    assert inferred(served(1, 0.99, count=2_000)).excess is None  # too few requests were at an empty backend


def test_given_workers_are_used_and_contradictions_counted() -> None:
    log = served(4, 0.85)
    right = infer(log.arrival, log.departure, log.routes, workers=4)
    assert (right.verdict, right.workers, right.lowest, right.highest) == (INFERRED, 4, 4, 4)
    assert right.contradictions < 10
    few = infer(log.arrival, log.departure, log.routes, workers=2)
    assert few.verdict == REFUSED
    assert few.contradictions > 100


def test_stated_workers_keep_a_lower_bound() -> None:
    """A tenth of the load is not in the log: the wait is at least that of the requests in it."""
    rng = np.random.default_rng(3)
    log = served(4, 0.9)
    part = log.selected(rng.random(len(log.arrival)) >= 0.1)
    free, stated = inferred(part), infer(part.arrival, part.departure, part.routes, workers=4)
    assert (free.verdict, free.workers) == (LOWER_BOUND, 4)
    assert (stated.verdict, stated.workers) == (LOWER_BOUND, 4)
    assert stated.wait.mean() == pytest.approx(free.wait.mean())
    assert stated.wait.mean() < part.wait.mean()
    wrong = infer(part.arrival, part.departure, part.routes, workers=2)
    assert wrong.verdict == REFUSED


def test_refuses_what_cannot_be_known() -> None:
    log = served(4, 0.85)
    few = infer(log.arrival[:400], log.departure[:400], log.routes[:400])
    assert (few.verdict, "too few" in few.reason) == (REFUSED, True)
    given_up = infer(log.arrival, log.departure, log.routes, unserved=2_000)
    assert (given_up.verdict, given_up.checks[0].name) == (REFUSED, "unserved")
    short = infer(log.arrival / 50, log.departure / 50, log.routes)
    assert (short.verdict, short.checks[0].name) == (REFUSED, "short_services")
    assert np.isnan(short.start).all()


def test_a_short_log_says_that_its_checks_are_weak() -> None:
    result = inferred(served(4, 0.85, count=3_000))
    assert result.verdict == INFERRED
    assert "the checks are weak" in result.reason


def test_without_a_queue_the_number_of_workers_has_no_upper_end() -> None:
    result = inferred(served(16, 0.3))
    assert (result.verdict, result.highest) == (INFERRED, None)
    assert result.wait.mean() < 0.0005


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.floats(0.001, 10), st.floats(0.0, 100), st.integers(0, 5), st.booleans())
def test_any_log_has_an_answer(seed: int, gap: float, longest: float, routes: int, whole: bool) -> None:
    rng = np.random.default_rng(seed)
    arrival = np.cumsum(rng.exponential(gap, 600))
    departure = arrival + rng.uniform(0, longest, 600)
    if whole:
        arrival, departure = np.floor(arrival), np.floor(departure)
    result = infer(arrival, departure, np.arange(600, dtype=np.int64) % (routes + 1))
    assert result.verdict in (INFERRED, LOWER_BOUND, REFUSED)
    assert result.reason
    if result.verdict != REFUSED:
        assert (result.wait >= 0).all()
