"""``sojourn.write_timeline``: write the timeline of workers and waiting requests as a Perfetto trace."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import BinaryIO

from sojourn.model.instants import Instant
from sojourn.perfetto.write import COLUMNS, WrittenTimeline, write_trace
from sojourn.present.files import written_whole
from sojourn.readers.inputs import Source
from sojourn.sources.open_requests import OpenedRequests, Where, with_all_holders
from sojourn.sources.opening import RequestsLike, requests_from
from sojourn.timeline.visits import WorkersLike
from sojourn.timeline.visits_of import visits_of


def write_timeline(
    requests: RequestsLike,
    path: str | os.PathLike[str],
    *,
    workers: WorkersLike = None,
    spans: Sequence[Source] | Source = (),
    app_log: Sequence[Source] | Source = (),
    since: Instant = None,
    until: Instant = None,
    where: Where = None,
) -> WrittenTimeline:
    """Write what each worker and each waiting request did as a Perfetto trace: ``sojourn timeline``.

    >>> written = sojourn.write_timeline("docs/examples/shop.jsonl.gz", "shop.pftrace")  # doctest: +SKIP

    Args:
        requests: sources, a split, or a frame; see ``sojourn.sources.opening.requests_from``.
        path: the file to write, whole or not at all.
        workers: number of workers per backend, or one number for all; None: derived from the worker values.
        spans: the app's spans, if ``requests`` are sources.
        app_log: the app's own access log, as for ``sojourn.split``.
        since: only requests that arrived at or after this instant: ISO 8601 with a zone, an aware
            datetime, or unix seconds.
        until: only requests that arrived before this instant.
        where: draw and count only the waits of requests with these values; all requests hold workers.

    Returns:
        What the trace contains; its ``notes`` say what it leaves out.

    Raises:
        SojournError: a source cannot be read, no wait is known, or the file cannot be written.
    """
    source = requests_from(
        requests, spans=spans, app_log=app_log, since=since, until=until, where=where, workers=workers
    )
    with written_whole(path) as partial, partial.open("wb") as out:
        return timeline_to(out, source, workers=workers)


def timeline_to(out: BinaryIO, requests: OpenedRequests, *, workers: WorkersLike = None) -> WrittenTimeline:
    """Write the timeline of opened requests to a file or a pipe.

    Raises:
        SojournError: no wait is known.
    """
    every, conditions = with_all_holders(requests, None)
    visited = visits_of(every, columns=(*COLUMNS, *conditions), workers=workers)
    return write_trace(visited, out, where=conditions)
