"""The requests of a page and what is computed from them once."""

from __future__ import annotations

import functools
import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.datastructures import QueryParams

from sojourn.analyses.audit.incident import incident_of
from sojourn.analyses.audit.reading import doubts_of
from sojourn.analyses.pcap.result import WireResult
from sojourn.analyses.queue_source import gaps_of
from sojourn.model.errors import SojournError
from sojourn.model.formatting import counted
from sojourn.model.frame import Selection
from sojourn.model.instants import epoch_us, of_epoch_us
from sojourn.serve.columns import DIMENSIONS, RequestColumns, columns_of
from sojourn.serve.queue import QueueOverTime
from sojourn.serve.view import AREA, Options, View
from sojourn.sources.open_requests import OpenedRequests, selected
from sojourn.timeline.visits import WorkersLike

WHOLE = 1_500_000  # requests: of fewer, the queue of all is computed, and all are compared
PART = 500_000  # requests of a window, of more: they must fit in memory beside the columns of all
LEAD = 60_000_000  # us before a window: requests that arrived then can still be in the system


@dataclass
class Session:
    """Opened requests with their columns.

    Attributes:
        requests: the opened requests.
        columns: their columns.
        options: how they were read.
        workers: per backend, or the same for all; None: derived from the worker values.
        wire: the result of captures of the same requests; None: there are none.
    """

    requests: OpenedRequests
    columns: RequestColumns
    options: Options
    workers: WorkersLike = None
    wire: WireResult | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _queue: tuple[tuple[int, int], QueueOverTime] | None = field(default=None, repr=False)

    @classmethod
    def of(cls, requests: OpenedRequests, options: Options, workers: WorkersLike = None) -> Session:
        """Return the session of opened requests.

        Raises:
            SojournError: there is no request but upgraded connections, or a temporary folder has no space.
        """
        columns = columns_of(requests)
        if not len(columns):
            raise SojournError("no request to show: all are upgraded connections (101)")
        return cls(requests, columns, options, workers)

    @property
    def begin(self) -> int:
        """The first arrival, unix time, us."""
        return int(self.columns.arrival[0])

    @property
    def end(self) -> int:
        """The end of the last arrivals, unix time, us."""
        return int(self.columns.arrival[-1]) + 1

    def view(self, query: QueryParams, names: Sequence[str] = AREA) -> View:
        """Return the view of an address; arguments as of ``View.of``."""
        return View.of(query, self.begin, self.end, names)

    @functools.cached_property
    def source(self) -> dict[str, Any]:
        """Return what the page says of the source.

        ``names``, ``requests``, ``from`` and ``to`` (unix time, us), ``dimensions``, ``incident``, ``notes``.
        """
        first, last = (of_epoch_us(each) for each in (self.begin, self.end - 1))
        incident = incident_of(self.requests.measures, first, last, len(self.columns))
        return {
            "names": list(self.requests.names),
            "requests": len(self.columns),
            "from": self.begin,
            "to": self.end,
            "dimensions": list(DIMENSIONS),
            "incident": incident and {
                "from": epoch_us(incident.begin), "to": epoch_us(incident.end), "sentence": incident.sentence,
            },
            "notes": [*doubts_of(self.requests), *gaps_of(self.requests)],
        }  # fmt: skip

    def requests_of(self, view: View, names: Collection[str] = DIMENSIONS) -> OpenedRequests:
        """Return the requests of a view's window, with the values of its filters; the others hold workers all the same.

        Args:
            view: the view.
            names: dimensions whose filters count.

        Raises:
            SojournError: a filter that counts has several values, or a missing one.
        """
        where: dict[str, object] = {}
        for name, values in view.where.items():
            if name in names:
                value = next(iter(values))
                if len(values) > 1 or value is None:
                    raise SojournError(f"the filter {name} has several values, or a missing one: choose one value")
                where[name] = float(value) if name == "status" else value
        since = of_epoch_us(view.area.begin) if view.area.begin > self.begin else None
        until = of_epoch_us(view.area.end) if view.area.end < self.end else None
        return selected(self.requests, Selection(since, until, where))

    def check_size(self, view: View, what: str) -> None:
        """Check that a view's window has few enough requests for an analysis that holds them in memory.

        Args:
            view: the view.
            what: what is done with ``{}`` requests, for the error.

        Raises:
            SojournError: it has too many.
        """
        rows = self.columns.between(view.area.begin, view.area.end)
        number, most = rows.stop - rows.start, PART if len(self.columns) > WHOLE else WHOLE
        if number > most:
            limit = what.format(f"{most:,}")
            raise SojournError(f"the window has {counted(number, 'request')}, and {limit} at most: zoom in")

    def queue_of(self, view: View) -> QueueOverTime:
        """Return the queue of a view's window, or of all requests if they are few enough; computed at the first use.

        Raises:
            SojournError: the window has too many requests, or no wait is known.
        """
        requests, part = self.requests, (self.begin, self.end)
        if len(self.columns) > WHOLE:
            self.check_size(view, "the queue of {} is computed")
            part = (view.area.begin - LEAD, view.area.end)
            requests = selected(self.requests, Selection(of_epoch_us(part[0]), of_epoch_us(part[1])))
        with self._lock:
            if self._queue is None or self._queue[0] != part:
                self._queue = (part, QueueOverTime.of(requests, self.workers))
            return self._queue[1]


class Sessions:
    """The current session of a page.

    Attributes:
        options: how the requests are read.
        follows: whether the session is replaced while requests arrive.
        generation: number of sessions so far.
    """

    def __init__(self, options: Options, *, follows: bool = False) -> None:
        self.options = options
        self.follows = follows
        self.generation = 0
        self._current: Session | None = None
        self._failure = ""

    @property
    def current(self) -> Session:
        """The current session.

        Raises:
            SojournError: there is none yet, or the logs cannot be read any longer.
        """
        if self._failure:
            raise SojournError(self._failure)
        if self._current is None:
            raise SojournError(f"{', '.join(self.options.sources)}: no request yet")
        return self._current

    def replace(self, session: Session) -> None:
        """Replace the current session."""
        self._current = session
        self.generation += 1

    def fail(self, error: BaseException) -> None:
        """Answer with an error from now on: the logs cannot be read any longer."""
        self._failure = f"the logs are not read any longer: {error}"
