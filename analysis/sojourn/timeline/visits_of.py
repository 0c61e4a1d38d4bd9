"""Visits of sources, splits or frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sojourn.model.column_errors import not_read
from sojourn.model.errors import SojournError
from sojourn.model.instants import Instant
from sojourn.readers.inputs import Source
from sojourn.sources.open_requests import OpenedRequests, Where
from sojourn.sources.opening import RequestsLike, requests_from
from sojourn.timeline.visits import Visits, WorkersLike
from sojourn.timeline.visits import visits as visits_of_rows


def visits(
    requests: RequestsLike,
    *,
    columns: Sequence[str] = (),
    workers: WorkersLike = None,
    waits_unknown: bool = False,
    spans: Sequence[Source] | Source = (),
    app_log: Sequence[Source] | Source = (),
    since: Instant = None,
    until: Instant = None,
    where: Where = None,
) -> Visits:
    """Return the requests as arrays of instants (s): arrival, end of the wait, begin and end of service.

    >>> visits = sojourn.visits("docs/examples/shop.jsonl.gz")
    >>> len(visits.arrival), visits.left_out["no_wait"]
    (2979, 108)

    Args:
        requests: sources, a split, or a frame.
        columns: columns to keep in addition to upstream, route, service, worker and status.
        workers: number of workers per backend, or one number for all; None: derived from the worker values.
        waits_unknown: keep requests with an unknown wait; their ``wait_end`` is NaN.
        spans: the app's spans, if ``requests`` are sources.
        app_log: the app's own access log, as for ``sojourn.split``.
        since: only requests that arrived at or after this instant: ISO 8601 with a zone, an aware
            datetime, or unix seconds.
        until: only requests that arrived before this instant.
        where: only requests with these values.

    Raises:
        SojournError: a source cannot be read, or a column does not exist.
    """
    source = requests_from(
        requests, columns=columns, spans=spans, app_log=app_log, since=since, until=until, where=where
    )
    names = source.rows.collect_schema().names()
    for column in columns:
        if column not in names:
            raise SojournError(not_read(column, names))
    return visits_of_rows(source.rows, columns=columns, workers=workers, waits_unknown=waits_unknown)


SHARED = (
    "header",
    "response",
    "request_id",
    "uri",
    "app_service",
    "span_seconds",
    "clock_tolerance",
)  # needed by some analysis


def visits_of(requests: OpenedRequests, *, columns: Sequence[str] = (), workers: WorkersLike = None) -> Visits:
    """Return the visits of opened requests; analyses of the same requests share them.

    Args:
        requests: the opened requests.
        columns: columns to keep in addition to upstream, route, service, worker and status, if they were read.
        workers: as for ``sojourn.visits``.
    """
    available = requests.rows.collect_schema().names()
    selected = tuple(name for name in dict.fromkeys((*columns, *SHARED)) if name in available)
    counts = tuple(sorted(workers.items())) if isinstance(workers, Mapping) else workers
    cache: dict[frozenset[str], Visits] = requests.once(("visits", counts), dict)
    for columns_of, visited in cache.items():
        if columns_of >= set(selected):
            return visited
    return cache.setdefault(frozenset(selected), visits_of_rows(requests.rows, columns=selected, workers=workers))
