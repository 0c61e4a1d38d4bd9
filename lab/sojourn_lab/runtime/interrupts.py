"""Handle signals: end a run in good order, once, and never during a start or a stop."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(KeyboardInterrupt):
    """A signal ended the run; `exit_code` is the shell's convention for it."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


class Interrupts:
    """Turns the first signal into `Interrupted`; later ones wait until the servers are stopped."""

    def __init__(self) -> None:
        self._shields = 0
        self._pending: int | None = None
        self._raised = False

    @contextlib.contextmanager
    def caught(self) -> Iterator[None]:
        """Handle the signals inside the block. Only a main thread may; elsewhere this changes nothing.

        An ignored signal remains ignored: that is how nohup keeps a long run alive after a logout.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        heeded = [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
        before = {number: signal.signal(number, self._arrived) for number in heeded}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextlib.contextmanager
    def shielded(self) -> Iterator[None]:
        """Defer signals until the end of the block, so that no process is started and forgotten."""
        self._shields += 1
        try:
            yield
        finally:
            self._shields -= 1
        self._raise_if_due()

    def _arrived(self, number: int, _frame: FrameType | None) -> None:
        self._pending = number
        self._raise_if_due()

    def _raise_if_due(self) -> None:
        if self._pending is not None and not self._shields and not self._raised:
            self._raised = True
            raise Interrupted(self._pending)
