"""Handle SIGTERM and SIGHUP by raising SystemExit."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


@contextlib.contextmanager
def ended_in_order() -> Iterator[None]:
    """Raise ``SystemExit`` on SIGTERM and SIGHUP inside the block, so that files and terminals are cleaned up.

    Has no effect outside of the main thread, or if a handler is installed or the signal is ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    handled = [each for each in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(each) == signal.SIG_DFL]
    for number in handled:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, signal.SIG_DFL)
