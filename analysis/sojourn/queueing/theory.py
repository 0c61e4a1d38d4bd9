"""Waiting times in closed form. Rates per s, durations in s; nothing here knows of a log.

Every wait is the time in the queue, without the service, in the long run of a stationary system. A queue that is
offered as much as it can serve, or more, has none: its wait grows for ever, and the answer is ``math.inf``.

    rho = arrival_rate * mean_service / workers          utilisation
    ca2, cs2                                             squared coefficients of variation (variance / mean²) of the
                                                         times between arrivals and of the service times

Every function raises ValueError, in words, for a rate or a duration that cannot be one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


def offered_load(arrival_rate: float, mean_service: float) -> float:
    """Workers kept busy on average, in erlangs: rate · S."""
    _check(arrival_rate=arrival_rate, mean_service=mean_service)
    return arrival_rate * mean_service


def utilisation(arrival_rate: float, mean_service: float, workers: int = 1) -> float:
    """Share of the workers' time that the offered load takes, rate·S/c; above 1 it cannot be served."""
    _check_workers(workers)
    return offered_load(arrival_rate, mean_service) / workers


def erlang_b(load: float, workers: int) -> float:
    """Probability that all workers are busy where nobody waits, M/G/c/c (Erlang 1917).

    By the recursion B(c) = aB(c-1) / (c + aB(c-1)), B(0) = 1, which neither overflows nor cancels.
    """
    _check(load=load)
    _check_workers(workers)
    blocked = 1.0
    for c in range(1, workers + 1):
        blocked = load * blocked / (c + load * blocked)
    return blocked


def erlang_c(load: float, workers: int) -> float:
    """Probability that a request has to wait, M/M/c (Erlang 1917): B / (1 - rho(1 - B)); 1 where rho ≥ 1."""
    blocked = erlang_b(load, workers)
    rho = load / workers
    if rho >= 1:
        return 1.0
    return blocked / (1 - rho * (1 - blocked))


def mm1_wait(arrival_rate: float, mean_service: float) -> float:
    """Mean wait with Poisson arrivals, exponential services, one worker: rho·S / (1 - rho) (Kleinrock 1975, §3.2)."""
    return mmc_wait(arrival_rate, mean_service, 1)


def mmc_wait(arrival_rate: float, mean_service: float, workers: int) -> float:
    """Mean wait with Poisson arrivals, exponential services, c workers: C·S / (c(1 - rho)) (Erlang 1917)."""
    rho = utilisation(arrival_rate, mean_service, workers)
    if rho >= 1:
        return math.inf
    return erlang_c(rho * workers, workers) * mean_service / (workers * (1 - rho))


def mmc_wait_exceeds(arrival_rate: float, mean_service: float, workers: int, seconds: float) -> float:
    """P(wait > seconds) in M/M/c, first come first served: C·exp(-c(1 - rho)t/S) (Erlang 1917); 1 where rho ≥ 1."""
    _check(seconds=seconds)
    rho = utilisation(arrival_rate, mean_service, workers)
    if rho >= 1:
        return 1.0
    if mean_service == 0:
        return 0.0
    return erlang_c(rho * workers, workers) * math.exp(-workers * (1 - rho) * seconds / mean_service)


def mmc_wait_quantile(arrival_rate: float, mean_service: float, workers: int, quantile: float) -> float:
    """The wait (s) that a share ``quantile`` of the requests does not exceed in M/M/c.

    ln(C / (1 - q))·S / (c(1 - rho)), from the tail C·exp(-c(1 - rho)t/S), first come first served (Erlang 1917).
    0 for quantiles below the share that does not wait at all.
    """
    if not 0 <= quantile < 1:
        raise ValueError("a quantile lies in [0, 1)")
    rho = utilisation(arrival_rate, mean_service, workers)
    if rho >= 1:
        return math.inf
    waiting = erlang_c(rho * workers, workers)
    if waiting <= 1 - quantile:
        return 0.0
    return math.log(waiting / (1 - quantile)) * mean_service / (workers * (1 - rho))


def mg1_wait(arrival_rate: float, mean_service: float, cs2: float) -> float:
    """Mean wait with Poisson arrivals, any services, one worker: rho·S(1 + c_s²) / (2(1 - rho)).

    Pollaczek (1930), Khinchine (1932). It does not depend on the order, as long as that does not look at the services.
    """
    _check(cs2=cs2)
    rho = utilisation(arrival_rate, mean_service)
    return math.inf if rho >= 1 else rho * mean_service * (1 + cs2) / (2 * (1 - rho))


def md1_wait(arrival_rate: float, mean_service: float) -> float:
    """Mean wait with Poisson arrivals, constant services, one worker: half of M/M/1's (Erlang 1909)."""
    return mg1_wait(arrival_rate, mean_service, 0.0)


def kingman_wait(arrival_rate: float, mean_service: float, ca2: float, cs2: float) -> float:
    """Mean wait of G/G/1, approximately: rho/(1 - rho) · (c_a² + c_s²)/2 · S (Kingman 1961).

    Exact for M/G/1; the better the closer rho is to 1. Arrivals that depend on each other (bursts) are beyond it.
    """
    return allen_cunneen_wait(arrival_rate, mean_service, 1, ca2, cs2)


def kingman_bound(arrival_rate: float, mean_service: float, ca2: float, cs2: float) -> float:
    """An upper bound of the mean wait of G/G/1: rate·(var_a + var_s) / (2(1 - rho)) (Kingman 1962)."""
    _check(ca2=ca2, cs2=cs2)
    rho = utilisation(arrival_rate, mean_service)
    if rho >= 1:
        return math.inf
    if arrival_rate == 0:
        return 0.0
    return arrival_rate * (ca2 / arrival_rate**2 + cs2 * mean_service**2) / (2 * (1 - rho))


def allen_cunneen_wait(arrival_rate: float, mean_service: float, workers: int, ca2: float, cs2: float) -> float:
    """Mean wait of G/G/c, approximately: M/M/c's times (c_a² + c_s²)/2 (Allen 1990, §5.3.4, after Cunneen)."""
    _check(ca2=ca2, cs2=cs2)
    return mmc_wait(arrival_rate, mean_service, workers) * (ca2 + cs2) / 2


@dataclass(frozen=True)
class FiniteBuffer:
    """M/M/c with so many places to wait.

    Attributes:
        blocking: probability that a request finds no place and is rejected.
        throughput: requests per s that are accepted.
        utilisation: share of the workers' time that is spent on services.
        mean_wait: s, of those accepted.
        mean_waiting: how many wait, on average over time.
    """

    blocking: float
    throughput: float
    utilisation: float
    mean_wait: float
    mean_waiting: float


def mmck(arrival_rate: float, mean_service: float, workers: int, places: int) -> FiniteBuffer:
    """M/M/c/K with K = workers + places (Kleinrock 1975, §3.6 and §3.8). It has an answer for every load.

    Args:
        arrival_rate: per s, of those rejected too.
        places: for those who wait, besides those in service.
    """
    load = offered_load(arrival_rate, mean_service)
    _check_workers(workers)
    if places < 0:
        raise ValueError("places must be 0 or more")
    # p(n)/p(n-1) = a / min(n, c); the largest is made 1, so that none overflows.
    logs = [0.0]
    if load == 0:
        return FiniteBuffer(0.0, arrival_rate, 0.0, 0.0, 0.0)
    for n in range(1, workers + places + 1):
        logs.append(logs[-1] + math.log(load / min(n, workers)))
    weights = [math.exp(value - max(logs)) for value in logs]
    whole = math.fsum(weights)
    blocking = weights[-1] / whole
    waiting = math.fsum((n - workers) * weights[n] for n in range(workers + 1, len(weights))) / whole
    throughput = arrival_rate * (1 - blocking)
    return FiniteBuffer(blocking, throughput, throughput * mean_service / workers, waiting / throughput, waiting)


@dataclass(frozen=True)
class ClosedLoop:
    """So many clients, each of whom thinks and asks in turn.

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


def closed_loop(clients: int, mean_service: float, workers: int = 1, mean_think: float = 0.0) -> ClosedLoop:
    """Machine repair, M/M/c//N: exponential services and think times (Palm 1947; Kleinrock 1975, §3.8).

    Without think time every client is always here, whatever the distributions: R = N·S/c for N ≥ c, and the wait is
    N·S/c - S (Little 1961; Muntz & Wong 1974). More clients then mean more wait and no more throughput.
    """
    _check(mean_service=mean_service, mean_think=mean_think)
    _check_workers(workers)
    if clients < 1 or mean_service == 0:
        raise ValueError("a closed loop has a client, and its services take time")
    if mean_think == 0:
        busy = float(min(clients, workers))
    else:
        logs = [0.0]
        for n in range(1, clients + 1):
            logs.append(logs[-1] + math.log((clients - n + 1) * mean_service / (mean_think * min(n, workers))))
        weights = [math.exp(value - max(logs)) for value in logs]
        busy = math.fsum(min(n, workers) * weight for n, weight in enumerate(weights)) / math.fsum(weights)
    throughput = busy / mean_service
    response = clients / throughput - mean_think
    return ClosedLoop(throughput, response, response - mean_service, busy / workers)


def _check(**values: float) -> None:
    for name, value in values.items():
        if not 0 <= value < math.inf:
            raise ValueError(f"{name} must be 0 or more, and finite")


def _check_workers(workers: int) -> None:
    if workers < 1:
        raise ValueError("there must be a worker")
