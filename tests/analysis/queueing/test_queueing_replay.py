"""The replay against a reference queue in Python, against the recursion, and against laws of every queue."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from queue_reference import Reference, drawn
from sojourn.queueing import replay as replay_module
from sojourn.queueing.outcome import DROPPED, REJECTED, SERVED, STATUSES, TIMED_OUT_SERVED, TIMED_OUT_WAITING, Outcome
from sojourn.queueing.replay import replay
from sojourn.queueing.system import BALANCERS, DISCIPLINES, System

SIX = (np.arange(6.0), np.array([45.0, 16.0, 8.0, 4.0, 2.0, 1.0]))
PLAIN_BALANCERS = ("given", "round_robin", "least_conn", "shared_queue")

systems = st.builds(
    System,
    workers=st.lists(st.integers(1, 3), min_size=1, max_size=3).map(tuple),
    discipline=st.sampled_from(DISCIPLINES),
    balancer=st.sampled_from(PLAIN_BALANCERS),
    timeout=st.sampled_from([1.0, 2.5, 6.0]),
    capacity=st.sampled_from([None, None, 0, 1, 4]),
    retries=st.integers(0, 2),
    backoff=st.sampled_from([0.0, 0.5]),
    codel_target=st.just(0.5),
    codel_interval=st.just(1.0),
    lifo_threshold=st.sampled_from([0, 2]),
    deadline_margin=st.sampled_from([0.0, 0.5]),
).map(lambda s: s if s.discipline == "deadline" or s.retries else replace(s, timeout=s.timeout if s.capacity else None))


@st.composite
def loads(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, System, dict[str, np.ndarray]]:
    system = draw(systems)
    n, seed = draw(st.integers(1, 60)), draw(st.integers(0, 10_000))
    rate = sum(system.workers) * draw(st.sampled_from([0.5, 0.9, 2.0]))
    arrivals, services = drawn(seed, n, rate, lattice=draw(st.booleans()))
    rng = np.random.default_rng(seed + 1)
    options: dict[str, np.ndarray] = {}
    if system.balancer == "given":
        options["backend"] = rng.integers(0, system.backends, n)
    if draw(st.booleans()):
        options["previous"] = np.array([rng.integers(-1, i) if i else -1 for i in range(n)])
        options["think"] = np.round(rng.exponential(0.5, n) * 8) / 8
    return arrivals, services, system, options


# A series of CoDel drops that ends right after a drop: its next due time determines how the next series begins.
ENDS_WITH_A_DROP = (
    np.array([
        3, 21, 21, 23, 23, 36, 39, 40, 59, 60, 94, 94, 105, 108, 108, 111, 120, 150, 155, 166, 179, 205, 208, 210, 218,
        222, 228, 230, 231, 246, 256, 258, 270, 275, 282,
    ]) / 8,
    np.array([
        7, 2, 3, 13, 20, 20, 19, 10, 3, 8, 9, 1, 1, 2, 4, 3, 13, 13, 21, 2, 17, 2, 32, 18, 2, 26, 4, 13, 7, 1, 2, 3, 1,
        11, 12,
    ]) / 8,
    System((1,), "codel", timeout=6.0, retries=2, backoff=0.5, codel_target=0.5, codel_interval=1.0),
    {},
)  # fmt: skip


@settings(max_examples=250, deadline=None)
@given(loads())
@example(ENDS_WITH_A_DROP)
def test_replay_agrees_with_the_reference_queue(load: tuple) -> None:
    arrivals, services, system, options = load
    outcome = replay(arrivals, services, system, **options)
    reference = Reference(arrivals, services, system, **options).run()
    assert [STATUSES[code] for code in outcome.status] == reference.status
    assert outcome.attempts.tolist() == reference.attempts
    for name in ("arrival", "sojourn", "wait", "start"):
        np.testing.assert_allclose(getattr(outcome, name), getattr(reference, name), rtol=0, atol=1e-9, err_msg=name)
    assert outcome.busy == pytest.approx(reference.busy)
    assert outcome.wasted == pytest.approx(reference.wasted)


@pytest.mark.parametrize("balancer", ["given", "round_robin", "shared_queue", "pinned"])
@pytest.mark.parametrize("timeout", [None, 3.0])
def test_recursion_and_event_loop_agree_to_the_last_bit(
    balancer: str, timeout: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = System((1, 3, 2), balancer=balancer, timeout=timeout)
    for lattice in (False, True):
        arrivals, services = drawn(1, 5_000, 5.5, lattice=lattice)
        options = {
            "backend": np.random.default_rng(2).choice(3, 5_000, p=[1 / 6, 3 / 6, 2 / 6]),
            "session": np.random.default_rng(3).integers(0, 40, 5_000),
        }
        fast = replay(arrivals, services, system, **options)
        with monkeypatch.context() as patch:
            patch.setattr(replay_module, "WORKERS_OF_RECURSION", 0)
            slow = replay(arrivals, services, system, **options)
        for name in ("arrival", "backend", "wait", "sojourn", "start", "status", "attempts"):
            np.testing.assert_array_equal(getattr(fast, name), getattr(slow, name), err_msg=name)
        assert fast.busy == pytest.approx(slow.busy)
        assert fast.wasted == pytest.approx(slow.wasted)
        assert fast.ended == slow.ended


def kept(outcome: Outcome) -> np.ndarray:
    return np.flatnonzero(~np.isnan(outcome.start))


@settings(max_examples=100, deadline=None)
@given(loads())
def test_every_request_has_one_outcome_and_busy_time_is_the_services_begun(load: tuple) -> None:
    arrivals, services, system, options = load
    outcome = replay(arrivals, services, system, **options)
    assert sum(outcome.counts().values()) == len(arrivals)
    assert set(np.unique(outcome.status)) <= set(range(5))
    assert (outcome.attempts >= 1).all()
    assert (outcome.attempts <= 1 + system.retries).all()
    assert (outcome.wait >= 0).all()
    assert (outcome.sojourn >= 0).all()
    assert outcome.wasted <= outcome.busy + 1e-9
    answered = outcome.status == SERVED
    useful = services[answered].sum()
    assert outcome.busy == pytest.approx(useful + outcome.wasted)
    if not system.retries:
        assert outcome.busy == pytest.approx(services[kept(outcome)].sum())
        np.testing.assert_allclose(outcome.sojourn[answered], (outcome.wait + services)[answered], atol=1e-9)
    if system.timeout is not None:
        assert (outcome.sojourn[answered & (outcome.attempts == 1)] < system.timeout).all()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(["fifo", "lifo", "sjf", "adaptive_lifo"]), st.integers(1, 3))
def test_no_worker_is_idle_while_requests_wait(seed: int, discipline: str, workers: int) -> None:
    arrivals, services = drawn(seed, 80, workers * 0.95, lattice=bool(seed % 2))
    outcome = replay(arrivals, services, System((workers,), discipline))
    ends = outcome.start + services
    for i in np.flatnonzero(outcome.wait > 1e-12):
        for t in np.concatenate([[arrivals[i]], outcome.start, ends]):
            if arrivals[i] <= t < outcome.start[i]:
                assert np.count_nonzero((outcome.start <= t) & (t < ends)) == workers


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 3))
def test_fifo_starts_the_first_and_lifo_the_last_waiting_request(seed: int, workers: int) -> None:
    arrivals, services = drawn(seed, 80, workers * 0.95, lattice=False)
    first = replay(arrivals, services, System((workers,)))
    assert (np.diff(first.start) >= 0).all()
    last = replay(arrivals, services, System((workers,), "lifo"))
    for i in np.flatnonzero(last.wait > 0):
        t = last.start[i]
        waiting = (arrivals < t) & (last.start > t)
        assert not (waiting & (arrivals > arrivals[i])).any()


def test_timeout_of_60_s_with_six_requests_one_second_apart() -> None:
    fifo = replay(*SIX, System((1,), timeout=60))
    assert fifo.status.tolist() == [SERVED, TIMED_OUT_SERVED, TIMED_OUT_SERVED, *[TIMED_OUT_WAITING] * 3]
    assert (fifo.start + SIX[1])[1] == 61  # a tie with its timeout, which wins
    assert fifo.wasted == 31
    lifo = replay(*SIX, System((1,), "lifo", timeout=60))
    assert SIX[1][lifo.status == SERVED].tolist() == [45, 8, 4, 2, 1]
    assert SIX[1][np.argsort(lifo.start)].tolist() == [45, 1, 2, 4, 8, 16]
    dropped = replay(*SIX, System((1,), "deadline", timeout=60))
    assert dropped.wasted == 24  # the last three were not begun: their clients had given up
    assert np.isnan(dropped.start[3:]).all()


def test_timeout_ends_during_the_second_of_two_long_services() -> None:
    outcome = replay([0.0, 5.0], [45.0, 45.0], System((1,), timeout=60))
    assert outcome.status.tolist() == [SERVED, TIMED_OUT_SERVED]
    assert outcome.wait.tolist() == [0, 40]


def test_wait_of_a_closed_loop_without_think_time() -> None:
    clients, workers, service, rounds = 8, 2, 0.1, 200
    n = clients * rounds
    previous = np.arange(n) - clients
    previous[:clients] = -1
    for discipline in ("fifo", "codel"):
        outcome = replay(
            np.zeros(n), np.full(n, service), System((workers,), discipline, codel_target=60), previous=previous
        )
        settled = slice(10 * clients, n - clients)
        assert outcome.wait[settled].mean() == pytest.approx(clients * service / workers - service, rel=0.02)
        assert outcome.ended == pytest.approx(n * service / workers)


def test_followers_arrive_after_their_think_time() -> None:
    outcome = replay([0.0, 9.0, 100.0], [1.0, 1.0, 1.0], System((1,)), previous=[-1, 0, -1], think=[0, 2.0, 0])
    assert outcome.arrival.tolist() == [0, 3, 100]
    failed = replay([0.0, 0.0, 0.0], [1.0, 1.0, 1.0], System((1,), capacity=0), previous=[-1, -1, 1])
    assert failed.status.tolist() == [SERVED, REJECTED, REJECTED]
    assert failed.arrival.tolist() == [0, 0, 0]


def test_retries_arrive_after_the_backoff_and_waste_their_work() -> None:
    outcome = replay([0.0, 1.0], [10.0, 3.0], System((1,), timeout=5, retries=2, backoff=1))
    # The first request times out at 5, 11 and 17; its first attempt is in service until 10, and so on.
    reference = Reference([0.0, 1.0], [10.0, 3.0], System((1,), timeout=5, retries=2, backoff=1)).run()
    assert outcome.attempts.tolist() == reference.attempts == [3, 3]
    assert outcome.sojourn.tolist() == reference.sojourn
    assert outcome.status[0] == TIMED_OUT_SERVED or outcome.status[0] == TIMED_OUT_WAITING
    assert outcome.wasted == outcome.busy == 3 * 13


def test_retry_of_a_rejected_attempt_can_succeed() -> None:
    outcome = replay([0.0, 1.0], [2.0, 2.0], System((1,), capacity=0, retries=1, backoff=1.5))
    assert outcome.status.tolist() == [SERVED, SERVED]
    assert outcome.attempts.tolist() == [1, 2]
    assert outcome.sojourn.tolist() == [2.0, 3.5]


def test_round_robin_alternates_and_pinned_sessions_keep_their_backend() -> None:
    n = 9
    apart = np.arange(n) * 10.0
    assert replay(apart, np.ones(n), System((1, 1, 1))).backend.tolist() == [0, 1, 2] * 3
    sessions = ["a", "b", "a", "c", "d", "b", "d", "a", "c"]
    outcome = replay(apart, np.ones(n), System((1, 1, 1), balancer="pinned"), session=sessions)
    assert outcome.backend.tolist() == [0, 1, 0, 2, 0, 1, 0, 0, 2]


def test_least_conn_chooses_the_fewest_connections_and_alternates_in_ties() -> None:
    apart = np.arange(6) * 10.0
    assert replay(apart, np.ones(6), System((1, 1), balancer="least_conn")).backend.tolist() == [0, 1] * 3
    busy = replay([0.0, 1.0, 2.0, 3.0], [100.0, 0.5, 0.5, 0.5], System((1, 1), balancer="least_conn"))
    assert busy.backend.tolist() == [0, 1, 1, 1]


def test_two_choices_compares_two_different_backends() -> None:
    n = 20_000
    arrivals, services = drawn(4, n, 1.0, lattice=False)
    idle = replay(arrivals, services * 1e-6, System((1, 1, 1), balancer="two_choices"), seed=1)
    assert np.bincount(idle.backend) == pytest.approx([n / 3] * 3, rel=0.05)
    # With two backends it always compares both: no request is sent to the busy one.
    pair = replay([0.0, 1.0, 2.0, 3.0], [100.0, 0.5, 0.5, 0.5], System((1, 1), balancer="two_choices"), seed=1)
    assert pair.backend.tolist() == [pair.backend[0]] + [1 - pair.backend[0]] * 3
    first, other = (
        replay(arrivals, services, System((1, 1, 1), balancer="two_choices"), seed=seed).backend for seed in (1, 2)
    )
    assert (first == replay(arrivals, services, System((1, 1, 1), balancer="two_choices"), seed=1).backend).all()
    assert (first != other).any()


def test_codel_matches_the_pseudocode_of_rfc_8289() -> None:
    arrivals, services = drawn(9, 1_500, 2.0, lattice=False)
    system = System((1,), "codel", codel_target=0.5, codel_interval=4.0, retries=1, backoff=0.5)
    reference = Reference(arrivals, services, system).run()
    outcome = replay(arrivals, services, system)
    assert [STATUSES[code] for code in outcome.status] == reference.status
    assert outcome.counts()["dropped"] > 200


def test_balancers_with_more_information_reduce_the_wait() -> None:
    arrivals, services = drawn(5, 200_000, 0.9 * 8, lattice=False)
    order = ("round_robin", "two_choices", "least_conn", "shared_queue")
    waits = [replay(arrivals, services, System((1,) * 8, balancer=balancer)).wait.mean() for balancer in order]
    assert waits == sorted(waits, reverse=True)
    assert waits[-1] < 0.5 * waits[0]


def test_codel_limits_the_wait_and_drops_only_under_overload() -> None:
    arrivals, services = drawn(6, 50_000, 1.3, lattice=False)
    system = System((1,), "codel", codel_target=2.0, codel_interval=20.0)
    held = replay(arrivals, services, system)
    full = replay(arrivals, services, System((1,)))
    assert np.quantile(held.wait, 0.9) < 0.05 * np.quantile(full.wait, 0.9)
    assert 0.1 < held.counts()["dropped"] / len(arrivals) < 0.4
    light = replay(arrivals * 4, services, system)
    assert light.counts()["dropped"] == 0


@pytest.mark.parametrize(("threshold", "order"), [(0, [0, 4, 3, 2, 1]), (2, [0, 4, 3, 1, 2]), (3, [0, 4, 1, 2, 3])])
def test_adaptive_lifo_is_lifo_above_its_threshold(threshold: int, order: list[int]) -> None:
    outcome = replay(np.arange(5.0), np.full(5, 10.0), System((1,), "adaptive_lifo", lifo_threshold=threshold))
    assert np.argsort(outcome.start).tolist() == order


def test_deadline_margin_drops_requests_that_cannot_be_served_in_time() -> None:
    arrivals, services = drawn(7, 20_000, 1.5, lattice=False)
    late = replay(arrivals, services, System((1,), "deadline", timeout=10))
    early = replay(arrivals, services, System((1,), "deadline", timeout=10, deadline_margin=3))
    assert early.counts()["dropped"] > 0
    assert late.counts()["dropped"] == 0
    assert early.wasted < late.wasted
    assert (early.wait[early.status == DROPPED] >= 10 - 3 - 1e-9).all()


def test_slots_grow_with_the_queue() -> None:
    n = 3 * replay_module.SLOTS
    outcome = replay(np.arange(n) * 1e-6, np.ones(n), System((1,), "lifo"))
    assert outcome.ended == pytest.approx(n)
    assert outcome.counts()["served"] == n


def test_replay_of_no_requests_is_empty() -> None:
    for discipline in ("fifo", "lifo"):
        outcome = replay([], [], System((1,), discipline))
        assert outcome.requests == outcome.served == outcome.busy == outcome.seconds == 0
        assert math.isnan(outcome.goodput)


@pytest.mark.parametrize(
    ("invalid", "token"),
    [
        ({"arrivals": [1.0, 0.0]}, "ascending"),
        ({"services": [1.0]}, "2 arrivals and 1 service"),
        ({"services": [1.0, -1.0]}, "negative"),
        ({"services": [1.0, math.nan]}, "negative|finite"),
        ({"arrivals": [0.0, math.inf]}, "finite"),
        ({"arrivals": [[0.0, 1.0]], "services": [[0.0, 1.0]]}, "arrivals"),
        ({"previous": [-1, 1]}, "earlier"),
        ({"previous": [-1, -2]}, "earlier|-1"),
        ({"think": [0.0, 0.0]}, "think"),
        ({"previous": [-1, 0], "think": [0.0, -1.0]}, "think"),
        ({"system": System((1,), balancer="given")}, "backend of each"),
        ({"system": System((1,), balancer="given"), "backend": [0, 1]}, "backend"),
        ({"system": System((1,), balancer="pinned")}, "session"),
    ],
)
def test_rejects_arrays_that_do_not_fit(invalid: dict, token: str) -> None:
    options = {"arrivals": [0.0, 1.0], "services": [1.0, 1.0], "system": System((1,)), **invalid}
    with pytest.raises(ValueError, match=token):
        replay(**options)


@pytest.mark.parametrize(
    "invalid",
    [
        {"workers": ()}, {"workers": (1, 0)}, {"discipline": "random"}, {"balancer": "dns"}, {"timeout": 0},
        {"timeout": math.nan}, {"discipline": "deadline"}, {"capacity": -1}, {"retries": -1}, {"backoff": -0.1},
        {"codel_target": 0}, {"codel_interval": math.inf}, {"lifo_threshold": -1}, {"deadline_margin": -1},
    ],
)  # fmt: skip
def test_rejects_invalid_systems(invalid: dict) -> None:
    with pytest.raises(ValueError, match=next(iter(invalid))):
        System(**{"workers": (1,), **invalid})


def test_all_disciplines_and_balancers_serve_requests() -> None:
    arrivals, services = drawn(8, 500, 1.8, lattice=False)
    for discipline in DISCIPLINES:
        for balancer in BALANCERS:
            system = System((1, 1), discipline, balancer, timeout=50)
            options = {"backend": np.arange(500) % 2, "session": np.arange(500) % 7}
            assert replay(arrivals, services, system, **options).served > 300
