"""Steps of the local clock: it was set, or the machine slept."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime

STEP = 5.0  # s; less is the time between looking at one clock and at the other


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
