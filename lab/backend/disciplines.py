"""Queueing disciplines: one function each, over the queue of waiting requests in order of arrival.

Each is called with a queue that is not empty and the current instant (s, monotonic). It removes requests from the queue
and returns (next request, rejected requests); the next request is None if all were rejected. Names and meanings are
those of `sojourn simulate` and `sojourn whatif`; adaptive_timeout exists only here. Shortest service first is missing:
a server does not know service times in advance.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

NAMES = ("fifo", "lifo", "adaptive_lifo", "codel", "deadline", "adaptive_timeout")


class Waiting(Protocol):
    """The properties of a waiting request that a discipline uses."""

    @property
    def arrived(self) -> float:
        """When it joined the queue, s."""

    def gone(self) -> bool:
        """Return whether its client has disconnected."""


@dataclass(frozen=True)
class Rules:
    """The parameters of the disciplines; durations in s.

    Attributes:
        timeout: time after its arrival at which a client gives up, for deadline; None: never.
        deadline_margin: deadline rejects requests with no more than this time left.
        codel_target, codel_interval: target of the wait, and the time for which it may be exceeded.
        lifo_threshold: queue length above which adaptive_lifo serves the last arrival first.
        calm_timeout, busy_timeout: maximum wait of adaptive_timeout, normally and for requests that arrived when the
            queue had not been empty for a calm_timeout.
    """

    timeout: float | None = None
    deadline_margin: float = 0.0
    codel_target: float = 0.005
    codel_interval: float = 0.1
    lifo_threshold: int = 10
    calm_timeout: float = 0.1
    busy_timeout: float = 0.005


W = TypeVar("W", bound=Waiting)
Taken = tuple[W | None, list[W]]
Discipline = Callable[[deque[W], float], Taken[W]]


def discipline(name: str, rules: Rules, _of: type[W]) -> Discipline[W]:
    """Return the discipline of that name, with its own state; ValueError for another name."""
    match name:
        case "fifo":
            return fifo
        case "lifo":
            return lifo
        case "adaptive_lifo":
            return lambda line, now: adaptive_lifo(line, now, rules.lifo_threshold)
        case "deadline":
            return lambda line, now: deadline(line, now, rules.timeout, rules.deadline_margin)
        case "codel":
            return CoDel(rules.codel_target, rules.codel_interval)
        case "adaptive_timeout":
            return AdaptiveTimeout(rules.calm_timeout, rules.busy_timeout)
    raise ValueError(f"{name!r} is not a discipline: {', '.join(NAMES)}")


def fifo(line: deque[W], now: float) -> Taken[W]:
    """Return the first arrival, as in the kernel's accept queue."""
    del now
    return line.popleft(), []


def lifo(line: deque[W], now: float) -> Taken[W]:
    """Return the last arrival."""
    del now
    return line.pop(), []


def adaptive_lifo(line: deque[W], now: float, threshold: int) -> Taken[W]:
    """Return the last arrival if more than `threshold` wait, otherwise the first (Maurer 2015)."""
    return lifo(line, now) if len(line) > threshold else fifo(line, now)


def deadline(line: deque[W], now: float, timeout: float | None, margin: float) -> Taken[W]:
    """Return the first arrival whose client waits; reject requests whose client has given up or is about to."""
    late: list[W] = []
    while line:
        first = line.popleft()
        out_of_time = timeout is not None and first.arrived + timeout - now <= margin
        if not out_of_time and not first.gone():
            return first, late
        late.append(first)
    return None, late


class CoDel:
    """Return the first arrival, and reject requests while waits exceed the target for too long.

    The control law of Nichols & Jacobson (2012; RFC 8289, section 5): when waits have exceeded the target for an
    interval, requests are rejected at intervals of interval / sqrt(count). A wait below the target, or an empty queue,
    ends the rejections.
    """

    def __init__(self, target: float, interval: float) -> None:
        self._target = target
        self._interval = interval
        # Rejections may begin an interval after the first long wait.
        self._long_since: float | None = None
        self._in_spell = False
        self._next = 0.0
        self._next_is_due = False
        self._count = 0
        self._count_at_begin = 0

    def __call__(self, line: deque[W], now: float) -> Taken[W]:
        """Return the discipline for a queue, see the class."""
        away: list[W] = []
        while line:
            first = line.popleft()
            if not self._turns_away(now - first.arrived, bool(line), now):
                return first, away
            away.append(first)
        return None, away

    def _turns_away(self, waited: float, others_wait: bool, now: float) -> bool:
        if waited < self._target or not others_wait:
            self._long_since, self._in_spell = None, False
            return False
        if self._long_since is None:
            self._long_since, self._in_spell = now + self._interval, False
            return False
        if self._in_spell:
            if self._next_is_due:
                self._next += self._interval / math.sqrt(self._count)
                self._next_is_due = False
            if now < self._next:
                return False
            self._count += 1
            # The next rejection is scheduled only if the rejections continue.
            self._next_is_due = True
            return True
        if now < self._long_since:
            return False
        # Rejections soon after the last ones continue at their rate.
        fresh = self._count - self._count_at_begin
        self._count = fresh if fresh > 1 and now - self._next < 16 * self._interval else 1
        self._count_at_begin = self._count
        self._next = now + self._interval / math.sqrt(self._count)
        self._in_spell, self._next_is_due = True, False
        return True


class AdaptiveTimeout:
    """Return the first arrival within its maximum wait, which depends on the queue on its arrival.

    The maximum wait is `calm`. Requests that arrive when the queue has not been empty for that long may wait only
    `busy`: the queue then drains, and waits become short again (Maurer 2015, "Fail at Scale", called controlled delay).
    """

    def __init__(self, calm: float, busy: float) -> None:
        self._calm = calm
        self._busy = busy
        # When the queue was last empty: until the first of the waiting requests arrived.
        self._empty_at = 0.0
        self._was_empty = True

    def __call__(self, line: deque[W], now: float) -> Taken[W]:
        """Return the discipline for a queue, see the class."""
        if self._was_empty:
            self._empty_at = line[0].arrived
        late: list[W] = []
        chosen: W | None = None
        while line and chosen is None:
            first = line.popleft()
            standing = first.arrived - self._empty_at > self._calm
            if now - first.arrived > (self._busy if standing else self._calm):
                late.append(first)
            else:
                chosen = first
        self._was_empty = not line
        return chosen, late
