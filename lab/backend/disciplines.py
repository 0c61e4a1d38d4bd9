"""Who is next: one small function per discipline, over the line of those who wait, in the order in which they came.

Each is called with a line that is not empty and the present instant (s, monotonic). It takes out of the line whoever
it decides on, and returns (who is next, who is turned away); nobody is next where all were turned away. Names and
meanings are those of `sojourn simulate` and `sojourn whatif`, so that a prediction and the change it is about speak of
the same thing; adaptive_timeout is known here only. Shortest service first is missing: a server cannot know it
beforehand.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

NAMES = ("fifo", "lifo", "adaptive_lifo", "codel", "deadline", "adaptive_timeout")


class Waiting(Protocol):
    """What a discipline may know of somebody who waits."""

    @property
    def arrived(self) -> float:
        """When it joined the line, s."""

    def gone(self) -> bool:
        """Whether nobody is there any more to take the answer."""


@dataclass(frozen=True)
class Rules:
    """The parameters of the disciplines that have any; durations in s.

    Attributes:
        timeout: how long after its arrival a client gives up, for deadline; None: never.
        deadline_margin: deadline turns away whoever has no more than this left.
        codel_target, codel_interval: a wait that is too long; for how long it may be so.
        lifo_threshold: how many may wait before adaptive_lifo turns.
        calm_timeout, busy_timeout: how long one may wait for adaptive_timeout: as a rule, and who came when the line
            had not been empty for a calm_timeout.
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
    """Return the discipline of that name, with a memory of its own where it needs one; ValueError for another name."""
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
    """Whoever came first, as in the kernel's own accept queue."""
    del now
    return line.popleft(), []


def lifo(line: deque[W], now: float) -> Taken[W]:
    """Whoever came last."""
    del now
    return line.pop(), []


def adaptive_lifo(line: deque[W], now: float, threshold: int) -> Taken[W]:
    """Whoever came last while more than `threshold` wait, else whoever came first (Maurer 2015)."""
    return lifo(line, now) if len(line) > threshold else fifo(line, now)


def deadline(line: deque[W], now: float, timeout: float | None, margin: float) -> Taken[W]:
    """Whoever came first and is still there; turned away are those who have given up or are about to."""
    late: list[W] = []
    while line:
        first = line.popleft()
        out_of_time = timeout is not None and first.arrived + timeout - now <= margin
        if not out_of_time and not first.gone():
            return first, late
        late.append(first)
    return None, late


class CoDel:
    """Whoever came first, some turned away when waits have been too long for too long.

    The control law of Nichols & Jacobson (2012; RFC 8289, section 5): waits that stay above the target for an interval
    begin a spell in which one after the other is turned away, each sooner after the last by interval / sqrt(count). A
    wait below the target, or nobody left behind, ends it.
    """

    def __init__(self, target: float, interval: float) -> None:
        self._target = target
        self._interval = interval
        # From when on turning away may begin: an interval after the first long wait.
        self._long_since: float | None = None
        self._in_spell = False
        self._next = 0.0
        self._next_is_due = False
        self._count = 0
        self._count_at_begin = 0

    def __call__(self, line: deque[W], now: float) -> Taken[W]:
        """See the class."""
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
            # When the next one is due is settled only once it is seen that the spell goes on.
            self._next_is_due = True
            return True
        if now < self._long_since:
            return False
        # A spell soon after the last one goes on at its pace.
        fresh = self._count - self._count_at_begin
        self._count = fresh if fresh > 1 and now - self._next < 16 * self._interval else 1
        self._count_at_begin = self._count
        self._next = now + self._interval / math.sqrt(self._count)
        self._in_spell, self._next_is_due = True, False
        return True


class AdaptiveTimeout:
    """Whoever came first and has not waited too long; how long is too long depends on how things stood on arrival.

    As a rule one may wait `calm`. Who comes when the line has not been empty for that long comes into a standing queue,
    and may wait only `busy`: the line then runs empty, and waits are short again (Maurer 2015, "Fail at Scale", where
    this goes by the name of controlled delay).
    """

    def __init__(self, calm: float, busy: float) -> None:
        self._calm = calm
        self._busy = busy
        # When the line was empty the last time: until the first of those who wait now came.
        self._empty_at = 0.0
        self._was_empty = True

    def __call__(self, line: deque[W], now: float) -> Taken[W]:
        """See the class."""
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
