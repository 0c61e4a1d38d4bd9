"""Waiting times in closed form. Rates per s, durations in s.

Every wait is the time in the queue, without the service, in the steady state. With an offered load of 1 or more per
worker there is no steady state: the wait grows without limit, and the result is ``math.inf``.

    rho = arrival_rate * mean_service / workers          utilisation
    ca2, cs2                                             squared coefficients of variation (variance / mean²) of the
                                                         times between arrivals and of the service times

Every function raises ValueError for a rate or a duration that is negative or not finite.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate


def offered_load(arrival_rate: float, mean_service: float) -> float:
    """Return the average number of busy workers, in erlangs: rate · S."""
    _check(arrival_rate=arrival_rate, mean_service=mean_service)
    return arrival_rate * mean_service


def utilisation(arrival_rate: float, mean_service: float, workers: int = 1) -> float:
    """Return the offered load per worker, rate·S/c; above 1 it cannot be served."""
    _check_workers(workers)
    return offered_load(arrival_rate, mean_service) / workers


def erlang_b(load: float, workers: int) -> float:
    """Return the probability that all workers are busy in a system without a queue, M/G/c/c (Erlang 1917).

    By the recursion B(c) = aB(c-1) / (c + aB(c-1)), B(0) = 1, which neither overflows nor cancels.
    """
    _check(load=load)
    _check_workers(workers)
    blocked = 1.0
    for c in range(1, workers + 1):
        blocked = load * blocked / (c + load * blocked)
    return blocked


def erlang_c(load: float, workers: int) -> float:
    """Return the probability that a request has to wait, M/M/c (Erlang 1917): B / (1 - rho(1 - B)); 1 if rho ≥ 1."""
    blocked = erlang_b(load, workers)
    rho = load / workers
    if rho >= 1:
        return 1.0
    return blocked / (1 - rho * (1 - blocked))


def mm1_wait(arrival_rate: float, mean_service: float) -> float:
    """Return the mean wait of M/M/1: rho·S / (1 - rho) (Kleinrock 1975, §3.2)."""
    return mmc_wait(arrival_rate, mean_service, 1)


def mmc_wait(arrival_rate: float, mean_service: float, workers: int) -> float:
    """Return the mean wait of M/M/c (Poisson arrivals, exponential services): C·S / (c(1 - rho)) (Erlang 1917)."""
    rho = utilisation(arrival_rate, mean_service, workers)
    if rho >= 1:
        return math.inf
    return erlang_c(rho * workers, workers) * mean_service / (workers * (1 - rho))


def mmc_wait_exceeds(arrival_rate: float, mean_service: float, workers: int, seconds: float) -> float:
    """Return P(wait > seconds) of M/M/c, first come first served: C·exp(-c(1 - rho)t/S) (Erlang 1917); 1 if rho ≥ 1."""
    _check(seconds=seconds)
    rho = utilisation(arrival_rate, mean_service, workers)
    if rho >= 1:
        return 1.0
    if mean_service == 0:
        return 0.0
    return erlang_c(rho * workers, workers) * math.exp(-workers * (1 - rho) * seconds / mean_service)


def mmc_wait_quantile(arrival_rate: float, mean_service: float, workers: int, quantile: float) -> float:
    """Return the wait (s) that a share ``quantile`` of the requests does not exceed in M/M/c.

    ln(C / (1 - q))·S / (c(1 - rho)), from the tail C·exp(-c(1 - rho)t/S), first come first served (Erlang 1917).
    0 for quantiles below the share of requests without a wait.
    """
    if not 0 <= quantile < 1:
        raise ValueError(f"quantile: {quantile} is not in [0, 1)")
    rho = utilisation(arrival_rate, mean_service, workers)
    if rho >= 1:
        return math.inf
    waiting = erlang_c(rho * workers, workers)
    if waiting <= 1 - quantile:
        return 0.0
    return math.log(waiting / (1 - quantile)) * mean_service / (workers * (1 - rho))


def mg1_wait(arrival_rate: float, mean_service: float, cs2: float) -> float:
    """Return the mean wait of M/G/1 (Poisson arrivals, any services): rho·S(1 + c_s²) / (2(1 - rho)).

    Pollaczek (1930), Khinchine (1932). It does not depend on the order of service, if that ignores the service times.
    """
    _check(cs2=cs2)
    rho = utilisation(arrival_rate, mean_service)
    return math.inf if rho >= 1 else rho * mean_service * (1 + cs2) / (2 * (1 - rho))


def md1_wait(arrival_rate: float, mean_service: float) -> float:
    """Return the mean wait of M/D/1 (Poisson arrivals, constant services): half of M/M/1's (Erlang 1909)."""
    return mg1_wait(arrival_rate, mean_service, 0.0)


def kingman_wait(arrival_rate: float, mean_service: float, ca2: float, cs2: float) -> float:
    """Return the approximate mean wait of G/G/1: rho/(1 - rho) · (c_a² + c_s²)/2 · S (Kingman 1961).

    Exact for M/G/1; more accurate the closer rho is to 1. It does not cover correlated arrivals (bursts).
    """
    return allen_cunneen_wait(arrival_rate, mean_service, 1, ca2, cs2)


def kingman_bound(arrival_rate: float, mean_service: float, ca2: float, cs2: float) -> float:
    """Return an upper bound of the mean wait of G/G/1: rate·(var_a + var_s) / (2(1 - rho)) (Kingman 1962)."""
    _check(ca2=ca2, cs2=cs2)
    rho = utilisation(arrival_rate, mean_service)
    if rho >= 1:
        return math.inf
    if arrival_rate == 0:
        return 0.0
    return arrival_rate * (ca2 / arrival_rate**2 + cs2 * mean_service**2) / (2 * (1 - rho))


def allen_cunneen_wait(arrival_rate: float, mean_service: float, workers: int, ca2: float, cs2: float) -> float:
    """Return the approximate mean wait of G/G/c: M/M/c's times (c_a² + c_s²)/2 (Allen 1990, §5.3.4, after Cunneen)."""
    _check(ca2=ca2, cs2=cs2)
    return mmc_wait(arrival_rate, mean_service, workers) * (ca2 + cs2) / 2


@dataclass(frozen=True)
class FiniteBuffer:
    """M/M/c with a limited queue.

    Attributes:
        blocking: probability that the queue is full and a request is rejected.
        throughput: accepted requests per s.
        utilisation: share of the workers' time that is spent on services.
        mean_wait: s, of accepted requests.
        mean_waiting: number of waiting requests, on average over time.
    """

    blocking: float
    throughput: float
    utilisation: float
    mean_wait: float
    mean_waiting: float


def mmck(arrival_rate: float, mean_service: float, workers: int, places: int) -> FiniteBuffer:
    """Return the figures of M/M/c/K with K = workers + places (Kleinrock 1975, §3.6 and §3.8), for any load.

    ``arrival_rate``: per s, with rejected requests. ``places``: maximum number of waiting requests.
    """
    load = offered_load(arrival_rate, mean_service)
    _check_workers(workers)
    if places < 0:
        raise ValueError("places: must be 0 or more")
    if load == 0:
        return FiniteBuffer(0.0, arrival_rate, 0.0, 0.0, 0.0)
    weights = _weights(load / min(n, workers) for n in range(1, workers + places + 1))
    whole = math.fsum(weights)
    blocking = weights[-1] / whole
    waiting = math.fsum((n - workers) * weights[n] for n in range(workers + 1, len(weights))) / whole
    throughput = arrival_rate * (1 - blocking)
    return FiniteBuffer(blocking, throughput, throughput * mean_service / workers, waiting / throughput, waiting)


@dataclass(frozen=True)
class ClosedLoopFigures:
    """Figures of a closed loop: each client sends a request, waits for its answer, and thinks before the next.

    Attributes:
        throughput: requests per s.
        mean_response: s, wait and service.
        mean_wait: s.
        utilisation: share of the workers' time that is spent on services.
    """

    throughput: float
    mean_response: float
    mean_wait: float
    utilisation: float


def closed_loop(clients: int, mean_service: float, workers: int = 1, mean_think: float = 0.0) -> ClosedLoopFigures:
    """Return the figures of M/M/c//N: exponential services and think times (Palm 1947; Kleinrock 1975, §3.8).

    Without think time all clients are always in the system, for any distribution: R = N·S/c for N ≥ c, and the wait is
    N·S/c - S (Little 1961; Muntz & Wong 1974). More clients then increase the wait, and not the throughput.
    """
    _check(mean_service=mean_service, mean_think=mean_think)
    _check_workers(workers)
    if clients < 1 or mean_service == 0:
        raise ValueError("clients: give at least 1, and mean_service above 0")
    if mean_think == 0:
        busy = float(min(clients, workers))
    else:
        weights = _weights(
            (clients - n + 1) * mean_service / (mean_think * min(n, workers)) for n in range(1, clients + 1)
        )
        busy = math.fsum(min(n, workers) * weight for n, weight in enumerate(weights)) / math.fsum(weights)
    throughput = busy / mean_service
    response = clients / throughput - mean_think
    return ClosedLoopFigures(throughput, response, response - mean_service, busy / workers)


def _weights(ratios: Iterable[float]) -> list[float]:
    """Return p(n) up to a factor from p(n) / p(n - 1), n = 1, 2, …; the largest is 1, to avoid overflow."""
    logs = list(accumulate(map(math.log, ratios), initial=0.0))
    largest = max(logs)
    return [math.exp(value - largest) for value in logs]


def _check(**values: float) -> None:
    for name, value in values.items():
        if not 0 <= value < math.inf:
            raise ValueError(f"{name}: must be 0 or more, and finite")


def _check_workers(workers: int) -> None:
    if workers < 1:
        raise ValueError("workers: must be 1 or more")
