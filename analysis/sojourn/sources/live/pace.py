"""Limit how often a figure is computed: on every request, but within its share of a processor."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

Value = TypeVar("Value")

SHARE = 0.04
LONGEST = 30.0  # s between two computations at most
RECENT = 3
"""Computations whose least time sets the pace: one that loads or compiles code takes seconds, and predicts nothing."""


class Paced(Generic[Value]):
    """A value that is computed when it is due, within its share of one processor's time."""

    def __init__(self, compute: Callable[..., Value], share: float = SHARE) -> None:
        self._compute = compute
        self._share = share
        self._value: Value | None = None
        self._due = 0.0
        self._spent: deque[float] = deque(maxlen=RECENT)

    def get(self, *arguments: Any) -> Value:
        """Return the value, computed from ``arguments`` when it is due."""
        begun = time.monotonic()
        if begun >= self._due:
            spent = time.process_time()
            self._value = self._compute(*arguments)
            self._spent.append(time.process_time() - spent)
            # The first one loads code nearly always: a second follows at once.
            self._due = begun + min(min(self._spent) / self._share, LONGEST) if len(self._spent) > 1 else 0.0
        return self._value  # type: ignore[return-value]

    def outdated(self) -> None:
        """Make the value due at the next call."""
        self._due = 0.0
