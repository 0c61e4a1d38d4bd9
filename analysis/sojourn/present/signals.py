"""End in order on SIGINT, SIGTERM and SIGHUP."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

# Errors that DuckDB makes of a KeyboardInterrupt: during a query, and while it reads an object of Python.
INTERRUPTIONS = ("Query interrupted", "KeyboardInterrupt")


@contextlib.contextmanager
def ended_in_order() -> Iterator[None]:
    """Raise ``SystemExit`` on SIGTERM and SIGHUP inside the block, so that files and terminals are cleaned up.

    Has no effect on signals outside of the main thread, or if a handler is installed or the signal is ignored.

    Raises:
        KeyboardInterrupt: SIGINT; also where an engine has made an error of its own of it.
    """

    def leave(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    main = threading.current_thread() is threading.main_thread()
    handled = [each for each in (signal.SIGTERM, signal.SIGHUP) if main and signal.getsignal(each) == signal.SIG_DFL]
    for number in handled:
        signal.signal(number, leave)
    try:
        yield
    except Exception as error:
        if any(words in str(error) for words in INTERRUPTIONS):
            raise KeyboardInterrupt from None
        raise
    finally:
        for number in handled:
            signal.signal(number, signal.SIG_DFL)


@contextlib.contextmanager
def signals_received() -> Iterator[list[int]]:
    """Yield a list that a first SIGINT, SIGTERM or SIGHUP is added to; a second one raises ``KeyboardInterrupt``.

    For work in short steps: an exception in the middle of one may be lost in an engine. Has no effect outside of the
    main thread; ignored signals remain ignored.
    """
    received: list[int] = []

    def ask(number: int, _: FrameType | None) -> None:
        received.append(number)
        if len(received) > 1:
            raise KeyboardInterrupt

    main = threading.current_thread() is threading.main_thread()
    each = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if main else ()
    before = {number: signal.signal(number, ask) for number in each if signal.getsignal(number) != signal.SIG_IGN}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
