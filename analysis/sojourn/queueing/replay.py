"""Replay requests with fixed arrivals and service times through any system, exactly.

First come, first served without rejections, drops or retries is a recursion (``fifo_starts``) if the queue of each
request is known beforehand; any other system needs the simulation kernel. Both give identical results, to the last bit.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from sojourn.model.arrays import Floats, Ints
from sojourn.model.compilation import compiled
from sojourn.model.formatting import counted
from sojourn.queueing import records, simulation_kernel
from sojourn.queueing.outcome import SERVED, TIMED_OUT_SERVED, TIMED_OUT_WAITING, Outcome
from sojourn.queueing.system import DISCIPLINES, System

# Up to this number of workers per queue, the recursion's sorted list is faster than the simulation kernel's heap.
WORKERS_OF_RECURSION = 256
SLOTS = 1024  # initial number of requests in system
BALANCERS_OF_KERNEL = {
    "given": records.GIVEN,
    "pinned": records.GIVEN,
    "round_robin": records.ROUND_ROBIN,
    "least_conn": records.LEAST_CONN,
    "two_choices": records.TWO_CHOICES,
    "shared_queue": records.SHARED_QUEUE,
}


def replay(
    arrivals: npt.ArrayLike,
    services: npt.ArrayLike,
    system: System,
    *,
    backend: npt.ArrayLike | None = None,
    session: npt.ArrayLike | None = None,
    previous: npt.ArrayLike | None = None,
    think: npt.ArrayLike | None = None,
    seed: int = 0,
) -> Outcome:
    """Replay n requests through a system that is empty at first, until the last service has ended.

    Args:
        arrivals: s, n, ascending; ignored for requests that follow another.
        services: s, n, how long each request holds a worker; a retry takes the same time again.
        system: workers and rules.
        backend: n, for the balancer "given": the backend of each, from 0.
        session: n, for the balancer "pinned": equal for requests of one session.
        previous: n, for a closed loop: the earlier request that has to end before this one arrives; -1: none.
        think: s, n: time between that end and the arrival; None: 0.
        seed: of the balancer "two_choices", the only one with random choices.

    Returns:
        The outcome of every request, in the order of the input.

    Raises:
        ValueError: the arrays do not fit each other or the system.
    """
    arrival, service = _floats(arrivals, "arrivals"), _floats(services, "services")
    n = len(arrival)
    if len(service) != n:
        raise ValueError(f"{counted(n, 'arrival')} and {counted(len(service), 'service')}: give as many of each")
    if n and not service.min() >= 0:
        raise ValueError(f"services: number {int(np.argmin(service))} is negative; give 0 or more")
    loop = _loop(previous, think, n)
    closed = len(loop[0]) > 0
    external = arrival[np.isnan(loop[2])] if closed else arrival
    if not np.isfinite(external).all() or not np.isfinite(service).all():
        raise ValueError("arrivals and services must be finite")
    if len(external) > 1 and (external[1:] < external[:-1]).any():
        raise ValueError("arrivals must be in ascending order")
    destination = destinations(system, n, backend, session)
    workers = max(system.workers) if system.balancer != "shared_queue" else sum(system.workers)
    if (
        system.discipline == "fifo" and system.capacity is None and system.retries == 0 and not closed
        and system.balancer not in {"least_conn", "two_choices"} and workers <= WORKERS_OF_RECURSION
    ):  # fmt: skip
        return _by_recursion(arrival, service, system, destination)
    return _by_events(arrival, service, system, destination, loop, seed)


def _by_recursion(arrival: Floats, service: Floats, system: System, destination: npt.NDArray[np.int32]) -> Outcome:
    n = len(arrival)
    if system.balancer == "round_robin":
        destination = np.tile(np.arange(system.backends, dtype=np.int32), n // system.backends + 1)[:n]
    first, owner = _workers(system)
    start, by = np.empty(n), np.empty(n, np.int32)
    free = np.full(len(owner), -math.inf)
    queue = destination if system.backends > 1 else destination[:0]
    fifo_starts(arrival, service, queue, first, free, owner.copy(), start, by)
    ends = start + service
    wait, sojourn, status = start - arrival, ends - arrival, np.zeros(n, np.int8)
    busy, wasted = float(service.sum()), 0.0
    if system.timeout is not None:
        gives_up = arrival + system.timeout
        late = ends >= gives_up
        status[late] = TIMED_OUT_SERVED
        status[start >= gives_up] = TIMED_OUT_WAITING
        wait = np.where(status == TIMED_OUT_WAITING, gives_up - arrival, wait)
        sojourn = np.where(status == SERVED, sojourn, gives_up - arrival)
        wasted = float(service[late].sum())
    ended = float(max(ends.max(), (arrival + sojourn).max())) if n else 0.0
    ones = np.ones(n, np.int32)
    return Outcome(arrival, by, wait, sojourn, start, status, ones, busy, wasted, ended, sum(system.workers))


@compiled
def fifo_starts(arrivals, services, queue, first, free, label, start, by):  # type: ignore[no-untyped-def] # numba
    """Compute when each service starts, and by which worker, in one pass over the requests.

    With one worker, service starts at the arrival or when the preceding request ends, whichever is later (Lindley
    1952). With c workers it starts when the first of them is free; the state is the ordered times at which the workers
    become free (Kiefer & Wolfowitz 1955).

    Args:
        arrivals: s, n, in order.
        services: s, n.
        queue: n, the queue of each request; empty: all in queue 0.
        first: the workers of queue q are those from ``first[q]`` up to ``first[q + 1]``.
        free: s, per worker, when it becomes free, ascending within a queue; changed.
        label: per worker, its entry in ``by``; moves with it.
        start: n, filled in: s.
        by: n, filled in: label of the worker.
    """
    one_queue = len(queue) == 0
    for i in range(len(arrivals)):
        q = 0 if one_queue else queue[i]
        low, high = first[q], first[q + 1]
        begin = max(arrivals[i], free[low])
        end = begin + services[i]
        owner = label[low]
        # This worker becomes free at `end`: workers that become free before move up.
        k = low + 1
        while k < high and free[k] <= end:
            free[k - 1] = free[k]
            label[k - 1] = label[k]
            k += 1
        free[k - 1] = end
        label[k - 1] = owner
        start[i] = begin
        by[i] = owner


def _by_events(
    arrival: Floats,
    service: Floats,
    system: System,
    destination: npt.NDArray[np.int32],
    loop: tuple[Ints, Ints, Floats],
    seed: int,
) -> Outcome:
    n = len(arrival)
    shared = system.balancer == "shared_queue"
    first, owner = _workers(system)
    places = system.backends if shared else 1
    capacity = np.iinfo(np.int64).max if system.capacity is None else system.capacity * places
    rules = records.Rules(
        DISCIPLINES.index(system.discipline),
        BALANCERS_OF_KERNEL[system.balancer],
        math.inf if system.timeout is None else float(system.timeout),
        capacity,
        system.retries,
        float(system.backoff),
        float(system.codel_target),
        float(system.codel_interval),
        system.lifo_threshold,
        float(system.deadline_margin),
        seed % 2**32,
    )
    requests = np.empty(n, records.REQUEST)
    records.fill(requests, arrival, service, destination, *loop)
    queues = np.zeros(len(first) - 1, records.QUEUE)
    queues["first_worker"], queues["workers"] = first[:-1], np.diff(first)
    state = np.zeros(1, records.STATE)
    returning = system.retries > 0 or len(loop[0]) > 0
    ending, coming = (np.zeros(room + 1, records.EVENT) for room in (len(owner), n if returning else 0))
    connections, current = (np.zeros(system.backends, np.int64) for _ in range(2))
    ring = np.arange(len(owner))
    simulation_kernel.begin(queues, state[0], requests, rules)
    slots = np.zeros(SLOTS, records.SLOT)
    while not simulation_kernel.run(
        requests, slots, queues, ending, coming, ring, owner, connections, current, state[0], rules
    ):  # fmt: skip
        slots = np.concatenate([slots, np.zeros_like(slots)])
    column = dict(zip(records.OUTCOMES, records.outcomes(requests), strict=True))
    busy, wasted, ended = (float(state[0][name]) for name in ("busy", "wasted", "ended"))
    return Outcome(**column, busy=busy, wasted=wasted, ended=ended if n else 0.0, workers=sum(system.workers))


def _workers(system: System) -> tuple[Ints, npt.NDArray[np.int32]]:
    """Return the workers of each queue as n + 1 bounds, and the backend of each worker."""
    if system.balancer == "shared_queue":
        # One worker of each backend in turn, so that the first requests are spread over the backends.
        rounds = [b for place in range(max(system.workers)) for b, c in enumerate(system.workers) if place < c]
        return np.array([0, len(rounds)]), np.array(rounds, np.int32)
    first = np.concatenate([[0], np.cumsum(system.workers)]).astype(np.int64)
    return first, np.repeat(np.arange(system.backends, dtype=np.int32), system.workers)


def destinations(
    system: System, n: int, backend: npt.ArrayLike | None, session: npt.ArrayLike | None
) -> npt.NDArray[np.int32]:
    """Return the backend of each request for the balancers "given" and "pinned"; else empty."""
    if system.balancer == "given":
        if backend is None:
            raise ValueError("the balancer 'given' needs the backend of each request")
        backends = np.ascontiguousarray(backend, np.int32)
        if len(backends) != n:
            raise ValueError(f"{counted(n, 'arrival')} and {counted(len(backends), 'backend')}: give as many of each")
        if n and not 0 <= backends.min() <= backends.max() < system.backends:
            raise ValueError(f"backend: give numbers from 0 to {system.backends - 1}")
        return backends
    if system.balancer == "pinned":
        if session is None:
            raise ValueError("the balancer 'pinned' needs the session of each request")
        keys = np.asarray(session)
        if len(keys) != n:
            raise ValueError(f"{counted(n, 'arrival')} and {counted(len(keys), 'session')}: give as many of each")
        _, begun, number = np.unique(keys, return_index=True, return_inverse=True)
        turn = np.empty(len(begun), np.int64)
        turn[np.argsort(begun)] = np.arange(len(begun))
        return np.ascontiguousarray(turn[number] % system.backends, np.int32)
    return np.empty(0, np.int32)


def _loop(previous: npt.ArrayLike | None, think: npt.ArrayLike | None, n: int) -> tuple[Ints, Ints, Floats]:
    """Return the first follower of each request, the next follower of the same one, and s between (NaN: no link)."""
    none = np.empty(0, np.int64)
    if previous is None:
        if think is not None:
            raise ValueError("think: give previous as well")
        return none, none, np.empty(0)
    before = np.ascontiguousarray(previous, np.int64)
    pause = np.zeros(n) if think is None else _floats(think, "think times")
    if len(before) != n or len(pause) != n:
        raise ValueError(f"previous and think: give one value for each of {counted(n, 'request')}")
    if (before >= np.arange(n)).any() or (before < -1).any():
        raise ValueError("previous: a request can only follow an earlier one; -1: it follows none")
    follows = np.flatnonzero(before >= 0)
    if not len(follows):
        return none, none, np.empty(0)
    if not (np.isfinite(pause[follows]) & (pause[follows] >= 0)).all():
        raise ValueError("think: times must be 0 or more, and finite")
    first, following = np.full(n, -1, np.int64), np.full(n, -1, np.int64)
    order = follows[np.lexsort((follows, before[follows]))]
    parents = before[order]
    heads = np.concatenate([[True], parents[1:] != parents[:-1]])
    first[parents[heads]] = order[heads]
    following[order[:-1][~heads[1:]]] = order[1:][~heads[1:]]
    return first, following, np.where(before >= 0, pause, math.nan)


def _floats(values: npt.ArrayLike, name: str) -> Floats:
    array = np.ascontiguousarray(values, np.float64)
    if array.ndim != 1:
        raise ValueError(f"{name}: give a one-dimensional array of numbers")
    return array
