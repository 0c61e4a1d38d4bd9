"""Read and compute on a separate thread, so that keys are handled at once."""

from __future__ import annotations

import threading
from datetime import UTC, datetime

from sojourn.sources.live.follow import READ_BYTES
from sojourn.sources.live.reader import POLL_INTERVAL
from sojourn.watch.view import View
from sojourn.watch.watcher import Choice, Watcher

LEAVING = 10.0  # s to wait for a running computation at the end


class Reading(threading.Thread):
    """Read and compute until ``stop``.

    Attributes:
        view: the latest; None before the first.
        progress: text to show before the first view.
        failure: the error that ended the thread.
    """

    def __init__(self, watcher: Watcher, choice: Choice, every: float) -> None:
        super().__init__(name="sojourn-watch", daemon=True)
        self.view: View | None = None
        self.progress = "reading the last ten minutes"
        self.failure: BaseException | None = None
        self._watcher = watcher
        self._setting = (choice, every)
        self._wake = threading.Event()
        self._leaving = threading.Event()

    def want(self, choice: Choice, every: float) -> None:
        """Compute with this choice and interval (s) from now on."""
        if (choice, every) != self._setting:
            self._setting = (choice, every)
            self._wake.set()

    def stop(self) -> None:
        """Stop, and wait for a running computation."""
        self._leaving.set()
        self._wake.set()
        if self.is_alive():
            self.join(LEAVING)

    def run(self) -> None:
        """See ``threading.Thread``."""
        try:
            self._watcher.catch_up(datetime.now(UTC), self._read)
            while not self._leaving.is_set():
                choice, every = self._setting
                wall = datetime.now(UTC)
                self._watcher.read(wall)
                # The queues are added to the second view: their code takes a moment to load.
                first = self.view is None
                self.view = self._watcher.view(choice, wall, with_queues=not first)
                if not first and self._watcher.behind < READ_BYTES:
                    self._wait(every)
        except BaseException as error:  # raised again after the terminal is restored
            self.failure = error

    def _wait(self, every: float) -> None:
        waited = 0.0
        while waited < every and not self._wake.wait(min(POLL_INTERVAL, every - waited)):
            waited += POLL_INTERVAL
            self._watcher.poll()
        self._wake.clear()
        self._watcher.poll()

    def _read(self, done: int, left: int) -> None:
        self.progress = f"reading the last ten minutes: {done >> 20} MB, {left >> 20} MB to go"
        if self._leaving.is_set():
            raise SystemExit
