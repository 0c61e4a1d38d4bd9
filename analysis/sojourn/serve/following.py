"""Logs that are being written: the requests of the last hour as sessions, one after another."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from sojourn.model.errors import SojournError
from sojourn.model.frame import Requests
from sojourn.readers.formats.line_format import LineFormat
from sojourn.readers.formats.units import Units
from sojourn.serve.session import Session, Sessions
from sojourn.sources.live.opening import opened_followers
from sojourn.sources.live.reader import POLL_INTERVAL, LiveReader
from sojourn.sources.live.recent import Recent
from sojourn.sources.open_requests import of_requests
from sojourn.timeline.visits import WorkersLike

SPAN = 3600.0  # s for which a request is shown after its end
EVERY = 1.0  # s between two sessions, at least
BUSY = 0.25  # share of the time that computing sessions takes, at most
LEAVING = 10.0  # s to wait for a running computation at the end


class Following(threading.Thread):
    """Read logs that are being written, and replace the current session while requests arrive.

    Args:
        logs: names of files and named pipes, globs, folders of runs, and ``-``.
        sessions: where the current session is.
        workers: per backend, or the same for all; None: derived from the worker values.
        form: format of all logs; None: each log's own.
        on_failure: called with the error that ends the reading.

    Raises:
        SojournError: a log cannot be read, or cannot be followed.
    """

    def __init__(
        self,
        logs: Sequence[str],
        sessions: Sessions,
        workers: WorkersLike,
        form: LineFormat | Units | None,
        on_failure: Callable[[BaseException], None],
    ) -> None:
        super().__init__(name="sojourn-follow", daemon=True)
        followers, tails = opened_followers(logs, form=form, seconds=SPAN)
        self._reader = LiveReader(followers, tails, form=form, recent=Recent(SPAN))
        self._sessions = sessions
        self._workers = workers
        self._on_failure = on_failure
        self._leaving = threading.Event()

    def catch_up(self) -> None:
        """Read what is in the logs, and show it.

        Raises:
            SojournError: a log cannot be read.
        """
        self._reader.catch_up(datetime.now(UTC))
        self._show()

    def stop(self) -> None:
        """Stop, and wait for a running computation."""
        self._leaving.set()
        if self.is_alive():
            self.join(LEAVING)
        self._reader.close()

    def run(self) -> None:
        """See ``threading.Thread``."""
        try:
            pause = EVERY
            while not self._leaving.is_set():
                due = time.monotonic() + pause
                size = 0
                while time.monotonic() < due and not self._leaving.wait(POLL_INTERVAL):
                    size += self._reader.poll()
                if size or self._reader.behind:
                    begun = time.monotonic()
                    self._reader.read(datetime.now(UTC))
                    self._show()
                    pause = max(EVERY, (time.monotonic() - begun) * (1 - BUSY) / BUSY)
        except BaseException as error:  # the page shows it
            self._on_failure(error)

    def _show(self) -> None:
        """Replace the session by one of the requests that are held."""
        recent = self._reader.recent
        rows = recent.rows(self._reader.now(datetime.now(UTC)), SPAN).collect()
        if rows.is_empty():
            return
        names = tuple(follower.name for follower in self._reader.followers)
        requests = of_requests(Requests(rows=rows.lazy(), records=recent.records, names=names), workers=self._workers)
        try:
            self._sessions.replace(Session.of(requests, self._sessions.options, self._workers))
        except SojournError:  # upgraded connections only
            return
