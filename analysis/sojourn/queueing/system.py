"""A queueing system: backends with workers, the discipline of their queues, and the balancer."""

from __future__ import annotations

import math
from dataclasses import dataclass

DISCIPLINES = ("fifo", "lifo", "adaptive_lifo", "codel", "deadline", "sjf")
BALANCERS = ("given", "round_robin", "least_conn", "two_choices", "shared_queue", "pinned")


@dataclass(frozen=True)
class System:
    """Backends, their workers, and the rules. Durations in s.

    Attributes:
        workers: per backend, the number of requests it serves at a time.
        discipline: which waiting request is next. fifo: the first arrival; lifo: the last arrival; adaptive_lifo: the
            last while more than ``lifo_threshold`` wait, else the first (Maurer 2015); codel: the first, with drops
            while waits exceed a target for an interval (Nichols & Jacobson 2012, RFC 8289); deadline: the first whose
            client has not given up; sjf: the shortest service, without preemption (Phipps 1956; with one worker and
            Poisson arrivals no such order has a shorter mean wait, Conway, Maxwell & Miller 1967).
        balancer: the backend of an attempt. given: set for each request; round_robin: in turn; least_conn: the fewest
            open connections, ties in turn as in nginx; two_choices: the better of two at random (Mitzenmacher 1996);
            shared_queue: one queue for all workers; pinned: all requests of a session go to one backend; new sessions
            are assigned in turn.
        timeout: from the arrival of an attempt until the client gives up; None: never. The server is not notified: the
            attempt keeps its place and is served, unless the discipline drops it.
        capacity: maximum number of waiting requests per backend (with a shared queue: this number times the
            backends); more are rejected. None: no limit.
        retries: maximum number of further attempts after a failure: timed out, dropped, or rejected.
        backoff: time between a failure and the next attempt.
        codel_target, codel_interval: the acceptable wait; how long waits may exceed it.
        lifo_threshold: number of waiting requests above which adaptive_lifo is LIFO.
        deadline_margin: deadline drops requests with at most this time left before the timeout.

    Raises:
        ValueError: a value is not valid.
    """

    workers: tuple[int, ...]
    discipline: str = "fifo"
    balancer: str = "round_robin"
    timeout: float | None = None
    capacity: int | None = None
    retries: int = 0
    backoff: float = 0.0
    codel_target: float = 0.005
    codel_interval: float = 0.1
    lifo_threshold: int = 10
    deadline_margin: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "workers", tuple(int(count) for count in self.workers))
        if not self.workers or min(self.workers) < 1:
            raise ValueError("workers: give at least one backend, and at least one worker for each")
        if self.discipline not in DISCIPLINES:
            raise ValueError(f"discipline: {self.discipline!r} is not one of {', '.join(DISCIPLINES)}")
        if self.balancer not in BALANCERS:
            raise ValueError(f"balancer: {self.balancer!r} is not one of {', '.join(BALANCERS)}")
        if self.timeout is not None and not 0 < self.timeout < math.inf:
            raise ValueError("timeout: must be longer than 0 s; None: no time-out")
        if self.discipline == "deadline" and self.timeout is None:
            raise ValueError("discipline 'deadline': give a timeout")
        for name in ("capacity", "retries", "backoff", "lifo_threshold", "deadline_margin"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < math.inf:
                raise ValueError(f"{name}: must be 0 or more")
        for name in ("codel_target", "codel_interval"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name}: must be longer than 0 s")

    @property
    def backends(self) -> int:
        """Return the number of backends."""
        return len(self.workers)
