"""A small event loop for processes written as generators, and a processor that its jobs share.

A process yields a number of seconds to sleep, or a wait: a function that receives the process and resumes it later.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Generator
from typing import Protocol, TypeAlias

Process: TypeAlias = "Generator[float | Wait, None, None]"
Wait: TypeAlias = "Callable[[Process], None]"


class HasInner(Protocol):
    """A request with the seconds that it waited inside its service."""

    inner: float


class Kernel:
    """Simulated time, s, and what happens at its instants; events of one instant happen in the order of their entry."""

    def __init__(self) -> None:
        self.now = 0.0
        self._order = itertools.count()
        self._events: list[tuple[float, int, Process | None, Callable[[], None] | None]] = []

    def start(self, process: Process, at: float | None = None) -> None:
        """Start or resume a process at an instant; None: now."""
        heapq.heappush(self._events, (self.now if at is None else at, next(self._order), process, None))

    def call(self, function: Callable[[], None], at: float) -> None:
        """Call a function at an instant."""
        heapq.heappush(self._events, (at, next(self._order), None, function))

    def run(self) -> None:
        """Handle events until there are no more."""
        while self._events:
            self.now, _, process, function = heapq.heappop(self._events)
            if function is not None:
                function()
            elif process is not None:
                self._resume(process)

    def _resume(self, process: Process) -> None:
        try:
            step = next(process)
        except StopIteration:
            return
        if isinstance(step, float):
            self.start(process, self.now + step)
        else:
            step(process)


class Slots:
    """A number of slots, taken in the order of arrival: a lock, a pool of connections, a limit in front."""

    def __init__(self, kernel: Kernel, count: int) -> None:
        self._kernel, self._free = kernel, count
        self._waiting: list[Process] = []

    def take(self, process: Process) -> None:
        """Resume the process when it has a slot."""
        if self._free > 0:
            self._free -= 1
            self._kernel.start(process)
        else:
            self._waiting.append(process)

    def release(self) -> None:
        """Give a slot to the longest waiting process."""
        if self._waiting:
            self._kernel.start(self._waiting.pop(0))
        else:
            self._free += 1


class Cores:
    """Processor sharing: each of n jobs advances at the speed min(1, cores / n)."""

    def __init__(self, kernel: Kernel, cores: float) -> None:
        self._kernel, self._cores = kernel, cores
        self._attained, self._since, self._version = 0.0, 0.0, 0
        self._order = itertools.count()
        self._jobs: list[tuple[float, int, Process]] = []
        self.busy = 0.0  # core seconds used

    def burn(self, demand: float) -> Wait:
        """Return a wait of ``demand`` seconds of one core."""

        def wait(process: Process) -> None:
            self._advance()
            heapq.heappush(self._jobs, (self._attained + demand, next(self._order), process))
            self._plan()

        return wait

    def compute(self, request: HasInner, demand: float) -> Process:
        """Burn ``demand`` seconds of one core for a request, and add what it waited meanwhile to its ``inner``."""
        due = self._kernel.now + demand
        yield self.burn(demand)
        request.inner += self._kernel.now - due

    def _speed(self) -> float:
        return min(1.0, self._cores / len(self._jobs)) if self._jobs else 0.0

    def _advance(self) -> None:
        elapsed = self._kernel.now - self._since
        self._attained += elapsed * self._speed()
        self.busy += elapsed * self._speed() * len(self._jobs)
        self._since = self._kernel.now

    def _plan(self) -> None:
        self._version += 1
        version = self._version
        if self._jobs:
            left = max(self._jobs[0][0] - self._attained, 0.0)
            self._kernel.call(lambda: self._finish(version), self._kernel.now + left / self._speed())

    def _finish(self, version: int) -> None:
        if version != self._version:
            return
        self._advance()
        self._attained = max(self._attained, self._jobs[0][0])
        while self._jobs and self._jobs[0][0] <= self._attained + 1e-12:
            self._kernel.start(heapq.heappop(self._jobs)[2])
        self._plan()
