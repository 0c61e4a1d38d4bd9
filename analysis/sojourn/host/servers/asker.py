"""A client of one application server: one query at a time, in the background.

A query to some kinds waits in the very queue that it measures: with all workers busy there is no answer until one is
free, and the figures are those of that moment. Never more than one query is under way at a server: one more each
second would fill the measured queue.
"""

from __future__ import annotations

import threading
import time

from sojourn.host.servers.kinds import NO_ANSWER, PATIENCE, Answer, Server
from sojourn.model.formatting import printable

BUDGET = 0.2
"""Seconds of a sample: an idle server answers in a millisecond."""


class Asker:
    """Queries one server."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._answer: Answer | str = ""
        self._answered = threading.Event()
        self._since: float | None = None

    def begin(self) -> None:
        """Send a query, unless one is under way."""
        if self._since is None:
            self._answered.clear()
            self._since = time.monotonic()
            threading.Thread(target=self._ask, name=f"query-{self.server.name}", daemon=True).start()

    def sample(self, budget: float = BUDGET) -> Answer | str:
        """Return the answer if it comes within ``budget`` s: to this query or an earlier one.

        Otherwise a sentence: that it has not come yet and since when, or why there is none.
        """
        self.begin()
        if self._answered.wait(budget):
            self._since = None
            return self._answer
        waited = time.monotonic() - (self._since or 0.0)
        text = f"no answer for {waited:.1f} s"
        if self.server.kind.in_queue:
            text += ": the query waits in the measured queue, all workers may be busy"
        return text

    def _ask(self) -> None:
        self._answer = "no answer: the query ended early"
        try:
            self._answer = self.server.answer()
        except TimeoutError:
            self._answer = f"no answer within {PATIENCE:g} s"
        except NO_ANSWER as error:
            self._answer = f"no answer: {printable(str(error) or type(error).__name__)}"
        finally:
            self._answered.set()
