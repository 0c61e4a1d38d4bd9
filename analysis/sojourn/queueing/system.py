"""What requests wait for: workers behind backends, in which order they take requests, and who sends them where."""

from __future__ import annotations

import math
from dataclasses import dataclass

DISCIPLINES = ("fifo", "lifo", "adaptive_lifo", "codel", "deadline", "sjf")
BALANCERS = ("given", "round_robin", "least_conn", "two_choices", "shared_queue", "pinned")


@dataclass(frozen=True)
class System:
    """Backends, their workers, and the rules. Durations in s.

    Attributes:
        workers: per backend, how many requests it serves at a time.
        discipline: which of those who wait is next. fifo: the first come; lifo: the last come; adaptive_lifo: the last
            come while more than ``lifo_threshold`` wait, else the first (Maurer 2015); codel: the first come, some
            dropped when they have waited too long for too long (Nichols & Jacobson 2012, RFC 8289); deadline: the first
            come whose client is still there; sjf: the shortest service, not interrupted
            (Phipps 1956; with one worker and Poisson arrivals no such order has a shorter mean wait, Conway, Maxwell &
            Miller 1967).
        balancer: which backend an attempt is sent to. given: told for each request; round_robin: in turn; least_conn:
            the fewest open connections, ties in turn as nginx does; two_choices: the better of two at random
            (Mitzenmacher 1996); shared_queue: all wait in one queue, for any worker; pinned: a session's requests stay
            where its first one was sent, in turn.
        timeout: the client gives up so long after the arrival of the attempt; None: never. It leaves no word: the
            attempt keeps its place and is served for nobody, unless the discipline drops it.
        capacity: how many may wait at a backend (with a shared queue: so many for each backend); one more is rejected.
            None: no limit.
        retries: how many more attempts follow one that failed: given up on, dropped, or rejected.
        backoff: between a failure and the next attempt.
        codel_target, codel_interval: a wait that is too long; for how long it may be so.
        lifo_threshold: how many may wait before adaptive_lifo turns.
        deadline_margin: deadline drops whoever has no more than this left before the timeout; 0: who has given up.

    Raises:
        ValueError: a value is not what it should be, in words.
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
            raise ValueError("there must be a backend, and each must have a worker")
        if self.discipline not in DISCIPLINES:
            raise ValueError(f"{self.discipline!r} is not a discipline: {', '.join(DISCIPLINES)}")
        if self.balancer not in BALANCERS:
            raise ValueError(f"{self.balancer!r} is not a balancer: {', '.join(BALANCERS)}")
        if self.timeout is not None and not 0 < self.timeout < math.inf:
            raise ValueError("a timeout must be longer than 0 s; None means that nobody gives up")
        if self.discipline == "deadline" and self.timeout is None:
            raise ValueError("the discipline 'deadline' needs a timeout")
        for name in ("capacity", "retries", "backoff", "lifo_threshold", "deadline_margin"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < math.inf:
                raise ValueError(f"{name} must be 0 or more")
        for name in ("codel_target", "codel_interval"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be longer than 0 s")

    @property
    def backends(self) -> int:
        """How many backends there are."""
        return len(self.workers)
