"""The current time of the log.

Normally this is the local clock. A log from another machine (a pipe, a mounted file) may use another clock or
arrive late; a log read from its beginning is a replay, whose last record defines the current time. The local clock can
be set while a log is followed.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta

LATE = 5.0  # s; lines later than this mean that the clocks differ
AHEAD = 1.0  # s; the same for lines from the future
MEMORY = 60.0  # s
STEP = 5.0  # s; less is the time between looking at the local clock and at another one


class LogClock:
    """The log's time, derived from the local clock; in a replay it stops when no more lines arrive."""

    def __init__(self, *, replay: bool = False) -> None:
        self.replay = replay
        self._newest: datetime | None = None
        self._lags: deque[tuple[datetime, float]] = deque()

    def observe(self, newest: datetime, wall: datetime) -> None:
        """Record new lines that arrived at ``wall``; their newest request ended at ``newest``."""
        self._newest = newest if self._newest is None else max(self._newest, newest)
        self._lags.append((wall, (wall - self._newest).total_seconds()))
        while wall - self._lags[0][0] > timedelta(seconds=MEMORY):
            self._lags.popleft()

    @property
    def late(self) -> float | None:
        """The lag where it is not that of a log on this machine; None where the clocks agree."""
        lag = self.lag
        return lag if lag is not None and (lag > LATE or lag < -AHEAD) else None

    @property
    def lag(self) -> float | None:
        """Minimum lag of the log in the last minute, s (negative: ahead); None before the first lines."""
        if not self._lags:
            return None
        return self._lags[-1][1] if self.replay else min(lag for _, lag in self._lags)

    def now(self, wall: datetime) -> datetime:
        """Return the log's time at a local instant."""
        late = self.late
        if late is None:
            return wall
        if self.replay and self._newest is not None:
            return self._newest
        return wall - timedelta(seconds=late)


class ClockSteps:
    """Compares the local clock with one that nothing sets.

    Args:
        elapsed: the other clock, s.
    """

    def __init__(self, elapsed: Callable[[], float] = time.monotonic) -> None:
        self._elapsed = elapsed
        self._before: tuple[datetime, float] | None = None

    def stepped(self, wall: datetime) -> bool:
        """Return whether the local clock, now at ``wall``, was set since the last call."""
        before, now = self._before, (wall, self._elapsed())
        self._before = now
        if before is None:
            return False
        return abs((wall - before[0]).total_seconds() - (now[1] - before[1])) > STEP
