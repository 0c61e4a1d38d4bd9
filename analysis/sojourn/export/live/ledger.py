"""When the requests of the log ended, by service, and until when the log is complete."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import numpy as np

from sojourn.model.arrays import Floats

MEMORY = 60.0  # s, over which the delay of the log is the longest one


class Ledger:
    """Requests that ended, by service; None stands for those that went to no backend.

    Args:
        span: for which they are held, s.
    """

    def __init__(self, span: float) -> None:
        self._span = span
        self._ends: dict[str | None, deque[Floats]] = {}
        self._last: dict[str | None, float] = {}
        self._read: float | None = None
        self._first = np.inf  # the earliest end that was read since the last reading
        self._delays: deque[tuple[float, float]] = deque()

    def add(self, ends: Mapping[str | None, Floats]) -> None:
        """Hold requests: service -> when those that were read ended, unix s."""
        for service, instants in ends.items():
            if len(instants):
                chunk = np.sort(instants)
                self._ends.setdefault(service, deque()).append(chunk)
                self._last[service] = max(self._last.get(service, 0.0), float(chunk[-1]))
                self._first = min(self._first, float(chunk[0]))

    def read(self, wall: float, *, complete: bool) -> None:
        """Learn that the log was read at ``wall``, unix s; ``complete``: all of it that had been written."""
        # A line that an earlier reading did not have was written after it.
        if self._read is not None:
            self._delays.append((wall, max(self._read - self._first, 0.0)))
        while self._delays and self._delays[0][0] < wall - MEMORY:
            self._delays.popleft()
        if complete:
            self._read = wall
        self._first = np.inf
        for chunks in self._ends.values():
            while chunks and chunks[0][-1] < wall - self._span:
                chunks.popleft()

    @property
    def complete_until(self) -> float | None:
        """Until when every request that ended has been read, unix s; None before the first reading."""
        delay = max((seconds for _, seconds in self._delays), default=0.0)
        return None if self._read is None else self._read - delay

    @property
    def last(self) -> float | None:
        """The end of the latest request, unix s."""
        return max(self._last.values(), default=None)

    def others_since(self, service: str, instant: float) -> bool:
        """Return whether a request of another service, or to no backend, ended after an instant (unix s)."""
        return any(last > instant for name, last in self._last.items() if name != service)

    def ended(self, at: Floats, service: str | None, *, alone: bool = True) -> Floats:
        """Return how many requests ended until each instant (unix s), less a constant.

        Args:
            at: instants.
            service: whose requests.
            alone: False: those of all services.
        """
        each = [self._ends.get(service, ())] if alone else self._ends.values()
        total = np.zeros(len(at))
        for chunks in each:
            for chunk in chunks:
                total += np.searchsorted(chunk, at, "right")
        return total
