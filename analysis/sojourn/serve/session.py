"""The requests of a page and what is computed from them once."""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sojourn.analyses.audit.incident import incident_of
from sojourn.analyses.audit.reading import doubts_of
from sojourn.analyses.queue_source import gaps_of
from sojourn.model.errors import SojournError
from sojourn.model.instants import epoch_us, of_epoch_us
from sojourn.serve.columns import DIMENSIONS, RequestColumns, columns_of
from sojourn.serve.queue import QueueOverTime
from sojourn.serve.view import Query, View
from sojourn.sources.open_requests import OpenedRequests
from sojourn.timeline.visits import WorkersLike


@dataclass
class Session:
    """Opened requests with their columns.

    Attributes:
        requests: the opened requests.
        columns: their columns.
        sources: names of the sources, as a command has them.
        workers: per backend, or the same for all; None: derived from the worker values.
    """

    requests: OpenedRequests
    columns: RequestColumns
    sources: tuple[str, ...]
    workers: WorkersLike = None
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @classmethod
    def of(cls, requests: OpenedRequests, sources: Sequence[str], workers: WorkersLike = None) -> Session:
        """Return the session of opened requests.

        Raises:
            SojournError: there is no request but upgraded connections, or a temporary folder has no space.
        """
        columns = columns_of(requests)
        if not len(columns):
            raise SojournError("no request to show: all are upgraded connections (101)")
        return cls(requests, columns, tuple(sources), workers)

    @property
    def begin(self) -> int:
        """The first arrival, unix time, us."""
        return int(self.columns.arrival[0])

    @property
    def end(self) -> int:
        """The end of the last arrivals, unix time, us."""
        return int(self.columns.arrival[-1]) + 1

    def view(self, query: Query) -> View:
        """Return the view of an address; its parameters are those of ``View.of``."""
        return View.of(query, self.begin, self.end)

    @functools.cached_property
    def source(self) -> dict[str, Any]:
        """What the page says of the source: ``names``, ``requests``, ``from``, ``to``, ``incident``, ``notes``."""
        first, last = (of_epoch_us(each) for each in (self.begin, self.end - 1))
        incident = incident_of(self.requests.measures, first, last, len(self.columns))
        return {
            "names": list(self.requests.names),
            "requests": len(self.columns),
            "from": self.begin,
            "to": self.end,
            "dimensions": list(DIMENSIONS),
            "incident": incident and {
                "from": epoch_us(incident.begin),
                "to": epoch_us(incident.end),
                "sentence": incident.sentence,
            },
            "notes": [*doubts_of(self.requests), *gaps_of(self.requests)],
        }  # fmt: skip

    @property
    def queue(self) -> QueueOverTime:
        """The queue of all requests over time, computed at the first use.

        Raises:
            SojournError: the requests are too many, or their waits are unknown.
        """
        with self._lock:
            return self._queue

    @functools.cached_property
    def _queue(self) -> QueueOverTime:
        return QueueOverTime.of(self.requests, self.workers)
