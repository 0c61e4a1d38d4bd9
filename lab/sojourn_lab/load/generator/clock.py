"""The generator's clock, and the measurement of its event loop's lateness."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Self

HEARTBEAT = 0.010
"""Seconds between two ticks. Ten milliseconds costs 100 wake-ups a second, well under 1 % of a core."""


HEAD_START = 0.05
"""Seconds between setting up and the first instant, so that the set-up delays no request."""


class Clock:
    """Monotonic seconds that can be read as unix seconds: the wall clock is read once."""

    def __init__(self) -> None:
        self._wall = time.time() - time.monotonic()

    def now(self) -> float:
        """Return monotonic seconds, the same that asyncio's loop uses on Linux."""
        return time.monotonic()

    def unix(self, instant: float) -> float:
        """Return a monotonic instant as unix seconds, to the microsecond."""
        return round(instant + self._wall, 6)


async def sleep_until(clock: Clock, instant: float) -> None:
    """Return at `instant`, or at once if it has passed, but always after one turn of the loop."""
    await asyncio.sleep(max(0.0, instant - clock.now()))


class Heartbeat:
    """A context that measures the event loop's lateness for timers due every HEARTBEAT seconds.

    A closed loop cannot see its own starvation in `sent - intended`: a late generator also reads
    the previous answer late, and intends the next request from there. These ticks are fixed
    beforehand, and every tick missed during a stall is counted with its own lateness.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.lateness: list[tuple[float, float]] = []

    async def __aenter__(self) -> Self:
        self._ticking = asyncio.create_task(self._tick())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._ticking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._ticking

    async def _tick(self) -> None:
        due = self._clock.now()
        while True:
            due += HEARTBEAT
            await asyncio.sleep(max(0.0, due - self._clock.now()))
            now = self._clock.now()
            self.lateness.append((due, now - due))
            while now - due > HEARTBEAT:
                due += HEARTBEAT
                self.lateness.append((due, now - due))

    def lateness_between(self, since: float, until: float) -> list[float]:
        """Return the lateness, in seconds, of the ticks due in the monotonic [since, until)."""
        return [late for due, late in self.lateness if since <= due < until]
