"""The instants of one request, on two clocks.

The stamp comes from another process, so it is compared with the wall clock. The service time begins and
ends in this process, so it is taken from the monotonic clock, which no adjustment of the time of day can
bend. Both clocks are read together, once, when the request starts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextvars import ContextVar

from .stamp import Stamp

#: One moment in nanoseconds: on the wall clock, on the monotonic clock.
Instant = tuple[int, int]

Clock = Callable[[], Instant]


def read_clocks() -> Instant:
    """Return now, on the wall clock and on the monotonic clock."""
    return time.time_ns(), time.monotonic_ns()


class Timing:
    """When the request was stamped, when the app started on it, when its headers left. In seconds."""

    __slots__ = ("clock", "headers_ns", "stamp", "start")

    def __init__(self, stamp: Stamp, start: Instant, clock: Clock) -> None:
        self.stamp = stamp
        self.start = start
        self.clock = clock
        self.headers_ns: int | None = None

    def restart(self) -> None:
        """Move the start to now, unless the headers have left already."""
        if self.headers_ns is None:
            self.start = self.clock()

    def headers_left(self) -> None:
        """Note that the response headers leave the app now; only the first call counts."""
        if self.headers_ns is None:
            self.headers_ns = self.clock()[1]

    @property
    def queueing_delay(self) -> float | None:
        """Start minus stamp. Negative when the two clocks disagree; None when there is no valid stamp."""
        start_us = self.stamp.start_us
        return None if start_us is None else (self.start[0] - start_us * 1000) / 1e9

    @property
    def service_time(self) -> float | None:
        """Start to response headers; None while the headers have not left."""
        return None if self.headers_ns is None else (self.headers_ns - self.start[1]) / 1e9


#: The request this thread or task is working on. Starlette copies the context into its thread pool, and the
#: copy refers to the same object, so a handler in that pool can still move the start.
current_timing: ContextVar[Timing | None] = ContextVar("sojourn_timing", default=None)


def mark_started() -> None:
    """Mark the start of the work on this request: the time before is queueing delay, not service time.

    Call it first in a handler that a framework runs later than it called the app, for example in a thread
    pool. Outside a request it does nothing.
    """
    timing = current_timing.get()
    if timing is not None:
        timing.restart()
