"""``sojourn.simulate``: simulate a queue and compare it with theory."""

from __future__ import annotations

from sojourn.analyses.simulate.analysis import SimulationResult
from sojourn.analyses.simulate.analysis import simulate as simulate_system
from sojourn.model.errors import ArgumentError
from sojourn.queueing.system import System

MOST_WORKERS = 1_000_000


def simulate(
    arrivals: str,
    service: str,
    *,
    workers: int = 1,
    backends: int = 1,
    requests: int | None = None,
    seed: int = 1,
    discipline: str = "fifo",
    balancer: str = "round_robin",
    timeout: float | None = None,
    capacity: int | None = None,
    retries: int = 0,
    backoff: float = 0.0,
    codel_target: float = 0.005,
    codel_interval: float = 0.1,
    lifo_threshold: int = 10,
    deadline_margin: float = 0.0,
    warmup: float = 0.05,
) -> SimulationResult:
    """Send generated requests through a queue, and compare the waits with theory where a closed form exists.

    >>> result = sojourn.simulate("poisson:8", "constant:0.1", requests=20_000)
    >>> result.theory.name, round(result.theory.mean_wait, 3)
    ('M/D/1', 0.2)

    Args:
        arrivals: ``poisson:RATE``, ``constant:RATE``, ``hyperexponential:RATE:CV2`` (per s), ``trace:FILE``.
        service: ``exponential:MEAN``, ``constant:MEAN``, ``lognormal:MEAN:CV2``, ``pareto:MEAN:ALPHA`` (s),
            ``trace:FILE``.
        workers: of each backend.
        backends: number of backends.
        requests: number; None: all of a trace of arrivals, else a million.
        seed: the same seed draws the same requests.
        discipline: fifo, lifo, adaptive_lifo, codel, deadline or sjf.
        balancer: round_robin, least_conn, two_choices or shared_queue.
        timeout: clients give up this long after an attempt, s; its work continues. None: never.
        capacity: maximum number of waiting requests per backend; more are rejected. None: no limit.
        retries: of a failed attempt.
        backoff: s from a failure to the next attempt.
        codel_target: s, acceptable wait of ``codel``.
        codel_interval: s, how long waits may exceed it.
        lifo_threshold: waiting requests above which ``adaptive_lifo`` is LIFO.
        deadline_margin: s; ``deadline`` drops requests with at most this time left before the time-out.
        warmup: share of the requests, the first ones, that the figures leave out.

    Returns:
        The figures, and the closed form where there is one.

    Raises:
        SojournError: an argument is not valid, or a trace cannot be read.
    """
    if not 1 <= workers * backends <= MOST_WORKERS:
        raise ArgumentError(f"workers × backends is {workers * backends:,}: give from 1 to {MOST_WORKERS:,} workers")
    try:
        system = System(
            (workers,) * backends, discipline, balancer, timeout, capacity, retries, backoff,
            codel_target, codel_interval, lifo_threshold, deadline_margin,
        )  # fmt: skip
        return simulate_system(arrivals, service, system, requests=requests, warmup=warmup, seed=seed)
    except ValueError as error:
        raise ArgumentError(str(error)) from None
