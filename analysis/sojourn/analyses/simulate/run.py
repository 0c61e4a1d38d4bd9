"""Processes and a system in, waits and theory out."""

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
    """Send made-up requests through a queue, and show theory beside it where it has a closed form.

    >>> result = sojourn.simulate("poisson:8", "constant:0.1", requests=20_000)
    >>> result.theory.name, round(result.theory.mean_wait, 3)
    ('M/D/1', 0.2)

    Args:
        arrivals: ``poisson:RATE``, ``constant:RATE``, ``hyperexponential:RATE:CV2`` (per s), ``trace:FILE``.
        service: ``exponential:MEAN``, ``constant:MEAN``, ``lognormal:MEAN:CV2``, ``pareto:MEAN:ALPHA`` (s),
            ``trace:FILE``.
        workers, backends: workers of each backend, and how many backends.
        requests: how many; None: all of a trace of arrivals, else a million.
        seed: the same seed draws the same requests.
        discipline: fifo, lifo, adaptive_lifo, codel, deadline or sjf.
        balancer: round_robin, least_conn, two_choices or shared_queue.
        timeout: clients give up so long after an attempt, s; its work goes on. None: never.
        capacity: so many may wait at a backend; one more is rejected. None: no limit.
        retries, backoff: attempts after one that failed, and s until the next.
        codel_target, codel_interval, lifo_threshold, deadline_margin: of the disciplines, as in
            ``sojourn.queueing.system.System``.
        warmup: share of the requests, the first ones, that the figures leave out.

    Raises:
        SojournError: an argument is not what it should be, or a trace cannot be read.
    """
    if not 1 <= workers * backends <= MOST_WORKERS:
        raise ArgumentError(f"there must be a worker, and at most {MOST_WORKERS:,} in all")
    try:
        system = System(
            (workers,) * backends, discipline, balancer, timeout, capacity, retries, backoff,
            codel_target, codel_interval, lifo_threshold, deadline_margin,
        )  # fmt: skip
        return simulate_system(arrivals, service, system, requests=requests, warmup=warmup, seed=seed)
    except ValueError as error:
        raise ArgumentError(str(error)) from None
