"""What time it is in the log.

This machine's clock, as a rule. A log that comes from elsewhere (a pipe, a mounted file) may have another clock, or
come late; a log that is read from its beginning is a replay, and its own last instant is now.
"""

from __future__ import annotations

from collections import deque
from datetime import datetime, timedelta

LATE = 5.0  # s by which lines may be late before the clocks are taken to differ
AHEAD = 1.0  # s by which they may come from the future
MEMORY = 60.0  # s


class LogClock:
    """The log's time from this machine's.

    Args:
        replay: time stands still when nothing more comes.
    """

    def __init__(self, *, replay: bool = False) -> None:
        self.replay = replay
        self._newest: datetime | None = None
        self._lags: deque[tuple[datetime, float]] = deque()

    def saw(self, newest: datetime, wall: datetime) -> None:
        """Lines came at ``wall`` that had not been there before; the newest of their requests ended at ``newest``."""
        self._newest = newest if self._newest is None else max(self._newest, newest)
        self._lags.append((wall, (wall - self._newest).total_seconds()))
        while wall - self._lags[0][0] > timedelta(seconds=MEMORY):
            self._lags.popleft()

    @property
    def late(self) -> float | None:
        """Seconds by which the log is behind (negative: ahead), the least of the last minute's; None: it is not."""
        if not self._lags:
            return None
        lag = self._lags[-1][1] if self.replay else min(lag for _, lag in self._lags)
        return lag if lag > LATE or lag < -AHEAD else None

    def now(self, wall: datetime) -> datetime:
        """The log's time at an instant of this machine's."""
        late = self.late
        if late is None:
            return wall
        if self.replay and self._newest is not None:
            return self._newest
        return wall - timedelta(seconds=late)
