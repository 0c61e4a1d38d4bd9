"""Services that share a resource, against a simulation by small steps, and against known results."""

from __future__ import annotations

import heapq

import numpy as np
import pytest
from sojourn.queueing.replay import replay
from sojourn.queueing.sharing import replay_shared
from sojourn.queueing.speed_laws import NOTHING_SHARED, Places, SpeedLaw
from sojourn.queueing.system import System

N = 3000


def requests(seed: int, rate: float, mean: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return np.cumsum(rng.exponential(1 / rate, N)), rng.exponential(mean, N)


def stepped(
    arrivals: np.ndarray, demands: np.ndarray, workers: int, speed: np.ndarray, step: float = 2e-4
) -> np.ndarray:
    """Return the ends of services under processor sharing, by small steps of time."""
    left: dict[int, float] = {}
    waiting: list[int] = []
    ends, upcoming, now = np.full(len(arrivals), np.nan), 0, 0.0
    while upcoming < len(arrivals) or left or waiting:
        while upcoming < len(arrivals) and arrivals[upcoming] <= now:
            heapq.heappush(waiting, upcoming)
            upcoming += 1
        while waiting and len(left) < workers:
            i = heapq.heappop(waiting)
            left[i] = demands[i]
        for i in list(left):
            left[i] -= step * speed[len(left)]
        for i in [i for i, rest in left.items() if rest <= 0]:
            ends[i] = now + step
            del left[i]
        now += step
    return ends


def test_services_that_share_nothing_are_a_plain_replay() -> None:
    arrivals, services = requests(1, 35)
    none = np.zeros(N)
    for backends, balancer in (((4,), "shared_queue"), ((3, 2), "shared_queue"), ((2, 2), "least_conn")):
        system = System(backends, balancer=balancer)
        plain = replay(arrivals, services, system)
        shared = replay_shared(arrivals, (none, services, none), system, (NOTHING_SHARED,))
        assert shared.outcome.wait == pytest.approx(plain.wait, abs=1e-9)
        assert shared.lasted == pytest.approx(services, abs=1e-9)
        assert shared.outcome.busy == pytest.approx(plain.busy)


def test_parts_before_and_after_hold_the_worker_and_not_the_resource() -> None:
    arrivals, services = requests(2, 35)
    system = System((4,), balancer="shared_queue")
    whole = replay(arrivals, services, system)
    parts = replay_shared(arrivals, (0.3 * services, 0.3 * services, 0.4 * services), system, (NOTHING_SHARED,))
    assert parts.outcome.wait == pytest.approx(whole.wait, abs=1e-9)
    alone = replay_shared(arrivals, (0.5 * services, 0 * services, 0.5 * services), system, (SpeedLaw(1.0, 1.0),))
    assert alone.outcome.wait == pytest.approx(whole.wait, abs=1e-9)


@pytest.mark.parametrize("law", [SpeedLaw(1.0, 2.0), SpeedLaw(1.0, 1.5), SpeedLaw(0.6, 1.0), SpeedLaw(coherence=0.05)])
def test_shared_services_end_as_in_a_simulation_by_small_steps(law: SpeedLaw) -> None:
    arrivals, services = requests(3, 14)
    arrivals, services = arrivals[:300], services[:300]
    none = np.zeros(300)
    shared = replay_shared(arrivals, (none, services, none), System((4,), balancer="shared_queue"), (law,))
    ends = stepped(arrivals, services, 4, law.speeds(4))
    assert shared.outcome.start + shared.lasted == pytest.approx(ends, abs=0.01)


def test_backends_share_one_resource_or_have_one_each() -> None:
    arrivals, services = requests(4, 25)
    none, backend = np.zeros(N), np.arange(N) % 2
    system = System((4, 4), balancer="given")

    def lasted(laws: tuple[SpeedLaw, ...], resource: list[int]) -> float:
        parts = none, services, none
        return float(replay_shared(arrivals, parts, system, laws, resource=resource, backend=backend).lasted.mean())

    each = lasted((SpeedLaw(1.0, 2.0), SpeedLaw(1.0, 2.0)), [0, 1])
    one = lasted((SpeedLaw(1.0, 4.0),), [0, 0])
    assert lasted((SpeedLaw(1.0, 2.0),), [0, 0]) > each > one > services.mean()


def test_without_a_limit_of_workers_the_mean_is_that_of_processor_sharing() -> None:
    """M/M/1 processor sharing has the mean of M/M/1: S / (1 - load)."""
    arrivals, services = requests(5, 6)
    none = np.zeros(N)
    shared = replay_shared(
        arrivals, (none, services, none), System((500,), balancer="shared_queue"), (SpeedLaw(1.0, 1.0),)
    )
    load = 6 * 0.1
    assert shared.outcome.wait.max() == 0
    assert shared.lasted.mean() == pytest.approx(0.1 / (1 - load), rel=0.15)


def in_tandem(
    arrivals: np.ndarray, before: float, demands: np.ndarray, after: np.ndarray, workers: int, places: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the waits for a worker and the releases of requests that then wait for a place, in the same order."""
    free_workers, free_places = [0.0] * workers, [0.0] * places
    waits, releases = np.empty(len(arrivals)), np.empty(len(arrivals))
    for i, arrival in enumerate(arrivals):
        start = max(arrival, heapq.heappop(free_workers))
        at_place = max(start + before, heapq.heappop(free_places))
        heapq.heappush(free_places, at_place + demands[i])
        releases[i] = at_place + demands[i] + after[i]
        heapq.heappush(free_workers, releases[i])
        waits[i] = start - arrival
    return waits, releases


@pytest.mark.parametrize(("workers", "places", "before"), [(6, 3, 0.0), (4, 1, 0.01), (3, 5, 0.02), (8, 4, 0.005)])
def test_requests_wait_for_a_worker_and_then_for_a_place(workers: int, places: int, before: float) -> None:
    arrivals, demands = requests(6, 0.8 * min(places / 0.1, workers / 0.15))
    after = np.random.default_rng(7).exponential(0.02, N)
    waits, releases = in_tandem(arrivals, before, demands, after, workers, places)
    parts = np.full(N, before), demands, after
    result = replay_shared(arrivals, parts, System((workers,), balancer="shared_queue"), (Places(places),))
    assert result.outcome.wait == pytest.approx(waits, abs=1e-9)
    assert result.outcome.start + before + result.lasted + after == pytest.approx(releases, abs=1e-9)
    assert (result.lasted >= demands - 1e-9).all()


def test_backends_share_places_or_have_their_own() -> None:
    arrivals, demands = requests(8, 35)
    none, backend = np.zeros(N), np.arange(N) % 2
    system = System((500, 500), balancer="given")

    def lasted(laws: tuple[Places, ...], resource: list[int]) -> np.ndarray:
        return replay_shared(arrivals, (none, demands, none), system, laws, resource=resource, backend=backend).lasted

    # Without a limit of workers, places are a first-come-first-served queue.
    together = replay(arrivals, demands, System((5,), balancer="shared_queue")).wait
    assert lasted((Places(5),), [0, 0]) - demands == pytest.approx(together, abs=1e-9)
    apart = lasted((Places(5), Places(3)), [0, 1])
    for number, places in enumerate((5, 3)):
        own = backend == number
        alone = replay(arrivals[own], demands[own], System((places,), balancer="shared_queue")).wait
        assert (apart - demands)[own] == pytest.approx(alone, abs=1e-9)
    # Places beside a law of speed: each backend has its own resource.
    laws = (Places(5), SpeedLaw(1.0, 2.0))
    mixed = replay_shared(arrivals, (none, demands, none), system, laws, resource=[0, 1], backend=backend)
    assert mixed.lasted[backend == 0] == pytest.approx(apart[backend == 0], abs=1e-9)


def test_rejects_arrays_that_do_not_fit() -> None:
    system, two = System((1,), balancer="shared_queue"), np.array([1.0, 2.0])
    with pytest.raises(ValueError, match="give as many of each"):
        replay_shared(two, (two, two, two[:1]), system, (NOTHING_SHARED,))
    with pytest.raises(ValueError, match="0 or more"):
        replay_shared(two, (two, -two, two), system, (NOTHING_SHARED,))
    with pytest.raises(ValueError, match="resource"):
        replay_shared(two, (two, two, two), system, (NOTHING_SHARED,), resource=[1])


def test_laws_at_their_limits() -> None:
    assert SpeedLaw(1.0, 2.0).speeds(4).tolist() == pytest.approx([1, 1, 1, 2 / 3, 0.5])
    assert SpeedLaw(0.0, 1.0).speeds(4).tolist() == [1] * 5
    assert SpeedLaw(0.5, 9.0).speeds(4).tolist() == [1] * 5
    near = SpeedLaw(0.999_999, 1.5).speeds(6)
    assert near == pytest.approx(SpeedLaw(1.0, 1.5).speeds(6), abs=1e-4)
    assert SpeedLaw(contention=0.1, coherence=0.01).speeds(3)[3] == pytest.approx(1 / (1 + 0.2 + 0.06))


@pytest.mark.parametrize(("share", "capacity"), [(0.3, 1.0), (0.6, 2.0)])
def test_a_shared_part_slows_services_as_in_the_closed_network(share: float, capacity: float) -> None:
    """Buzen's convolution for a delay and a station of C servers, written out for 4 services."""
    weights = [1.0]
    for m in range(1, 5):
        weights.append(weights[-1] * share / min(m, capacity))
    delay = [1.0, *np.cumprod([(1 - share) / k for k in range(1, 5)]).tolist()]
    constants = [sum(weights[m] * delay[k - m] for m in range(k + 1)) for k in range(5)]
    speeds = SpeedLaw(share, capacity).speeds(4)
    for k in range(1, 5):
        assert speeds[k] == pytest.approx(constants[k - 1] / constants[k] / k)
