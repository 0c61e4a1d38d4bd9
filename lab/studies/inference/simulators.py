"""Simulate one backend: arrivals, waits and departures of several disciplines, and the instants a proxy logs of them.

Every simulator takes ``arrival`` (s, ascending) and ``service`` (s) and returns (start, departure), s. With processor
sharing there is no start: it is the instant at which the service would have had to begin to take no longer than alone.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from sojourn.model.arrays import Floats, Ints

Times = tuple[Floats, Floats]

STALE = 0.004  # s by which the clock that nginx keeps for a turn of its event loop is late, at most
MEAN = 0.05  # s, of service times
ROUTES = ((0.6, 0.4), (0.3, 1.2), (0.1, 3.4))  # share of the requests, mean service in parts of the mean


@dataclass(frozen=True)
class Logged:
    """What a log shows of a simulated backend, and the truth.

    Attributes:
        arrival, departure: s, as logged.
        routes: number of each request's route.
        wait: s, true.
        response: s, true.
        unserved: requests beside these that the proxy gave up.
    """

    arrival: Floats
    departure: Floats
    routes: Ints
    wait: Floats
    response: Floats
    unserved: int = 0

    def selected(self, which: npt.NDArray[np.bool_] | Ints) -> Logged:
        """Return a log of some of the requests, by their positions or by whether each is one of them."""
        return Logged(
            self.arrival[which], self.departure[which], self.routes[which], self.wait[which], self.response[which],
            self.unserved,
        )  # fmt: skip


def services(rng: np.random.Generator, count: int, kind: str) -> tuple[Floats, Ints]:
    """Return service times (s) and routes; ``kind``: exponential, lognormal, erlang, constant, or routes."""
    routes = np.zeros(count, np.int64)
    if kind == "exponential":
        return rng.exponential(MEAN, count), routes
    if kind == "lognormal":
        return rng.lognormal(np.log(MEAN) - 0.5, 1.0, count), routes
    if kind == "erlang":
        return rng.gamma(4, MEAN / 4, count), routes
    if kind == "constant":
        return np.full(count, MEAN), routes
    routes = rng.choice(len(ROUTES), count, p=[share for share, _ in ROUTES])
    means = np.array([mean for _, mean in ROUTES]) * MEAN
    return rng.gamma(6, means[routes] / 6), routes


def poisson(rng: np.random.Generator, service: Floats, workers: int, utilisation: float) -> Floats:
    """Return Poisson arrivals (s) that use ``utilisation`` of the workers."""
    return np.cumsum(rng.exponential(service.mean() / (utilisation * workers), len(service)))


def first_come(arrival: Floats, service: Floats, workers: int) -> Times:
    """Serve in the order of the arrivals."""
    free = [0.0] * workers
    start = np.empty(len(arrival))
    for number, (at, seconds) in enumerate(zip(arrival.tolist(), service.tolist(), strict=True)):
        begin = max(at, heapq.heappop(free))
        start[number] = begin
        heapq.heappush(free, begin + seconds)
    return start, start + service


def _in_order(arrival: Floats, service: Floats, workers: int, next_of: Callable[[list[int]], int]) -> Times:
    """Serve in the order of ``next_of``, which takes a request out of those that wait."""
    start = np.empty(len(arrival))
    busy: list[float] = []
    waiting: list[int] = []
    number = 0
    while number < len(arrival) or busy:
        if number < len(arrival) and (not busy or arrival[number] <= busy[0]):
            waiting.append(number)
            now = float(arrival[number])
            number += 1
        else:
            now = heapq.heappop(busy)
        while waiting and len(busy) < workers:
            chosen = next_of(waiting)
            start[chosen] = now
            heapq.heappush(busy, now + float(service[chosen]))
    return start, start + service


def last_come(arrival: Floats, service: Floats, workers: int) -> Times:
    """Serve the latest arrival first."""
    return _in_order(arrival, service, workers, lambda waiting: waiting.pop())


def random_order(rng: np.random.Generator, arrival: Floats, service: Floats, workers: int) -> Times:
    """Serve a random one of those that wait."""

    def chosen(waiting: list[int]) -> int:
        at = int(rng.integers(len(waiting)))
        waiting[at], waiting[-1] = waiting[-1], waiting[at]
        return waiting.pop()

    return _in_order(arrival, service, workers, chosen)


def priority(arrival: Floats, service: Floats, workers: int, rank: Ints) -> Times:
    """Serve requests of the lowest rank first."""

    def chosen(waiting: list[int]) -> int:
        return waiting.pop(min(range(len(waiting)), key=lambda place: (rank[waiting[place]], waiting[place])))

    return _in_order(arrival, service, workers, chosen)


def processor_sharing(arrival: Floats, service: Floats, workers: int) -> Times:
    """Serve all at once: each as fast as alone while there are no more requests than workers."""
    departure = np.empty(len(arrival))
    work: list[tuple[float, int]] = []
    now = done = 0.0
    number = 0
    while number < len(arrival) or work:
        rate = min(1.0, workers / len(work)) if work else 0.0
        end = now + (work[0][0] - done) / rate if work else np.inf
        if number < len(arrival) and arrival[number] <= end:
            done += (arrival[number] - now) * rate
            now = float(arrival[number])
            heapq.heappush(work, (done + float(service[number]), number))
            number += 1
        else:
            done, finished = heapq.heappop(work)
            now = end
            departure[finished] = end
    return departure - service, departure


def event_loop(arrival: Floats, service: Floats, busy: float = 0.3) -> Times:
    """Serve on one thread, which works for a part of each service time; the rest is waiting for others."""
    _, worked = first_come(arrival, service * busy, 1)
    departure = worked + service * (1 - busy)
    return departure - service, departure


def one_queue_each(rng: np.random.Generator, arrival: Floats, service: Floats, workers: int) -> Times:
    """Serve in a queue of its own for each worker, as with SO_REUSEPORT."""
    start, departure = np.empty(len(arrival)), np.empty(len(arrival))
    worker = rng.integers(workers, size=len(arrival))
    for number in range(workers):
        own = worker == number
        start[own], departure[own] = first_come(arrival[own], service[own], 1)
    return start, departure


def logged(
    rng: np.random.Generator, arrival: Floats, times: Times, routes: Ints, stale: float = STALE, step: float = 0.001
) -> Logged:
    """Return what the log of a proxy shows: instants of its cached clock, cut to its step (s)."""

    def stamped(instant: Floats) -> Floats:
        late: Floats = instant - rng.uniform(0, stale, len(instant))
        return np.floor(late / step + 1e-9) * step

    start, departure = times
    at = stamped(arrival)
    return Logged(at, np.maximum(stamped(departure), at), routes, start - arrival, departure - arrival)
