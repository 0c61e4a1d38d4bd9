"""Depth of sources, splits or frames."""

from __future__ import annotations

from collections.abc import Sequence

from sojourn.analyses.depth.analysis import DepthResult, depth_of
from sojourn.analyses.queue_source import COLUMN, queue_source_of
from sojourn.model.instants import Instant
from sojourn.readers.inputs import Source
from sojourn.sources.open_requests import Where, with_all_holders
from sojourn.sources.opening import RequestsLike, requests_from
from sojourn.timeline.visits import WorkersLike
from sojourn.timeline.visits_of import visits_of


def depth(
    requests: RequestsLike,
    *,
    workers: WorkersLike = None,
    spans: Sequence[Source] | Source = (),
    app_log: Sequence[Source] | Source = (),
    since: Instant = None,
    until: Instant = None,
    where: Where = None,
) -> DepthResult:
    """Rebuild the queue: requests waiting and in service over time and on arrival, and worker utilisation.

    >>> result = sojourn.depth("docs/examples/shop.jsonl.gz")
    >>> result.overall["workers"]
    4

    Args:
        requests: sources, a split, or a frame; see ``sojourn.sources.opening.requests_from``.
        workers: number of workers per backend, or one number for all; None: derived from the worker values.
        spans: the app's spans, if ``requests`` are sources.
        app_log: the app's own access log, as for ``sojourn.split``.
        since: only requests that arrived at or after this instant: ISO 8601 with a zone, an aware
            datetime, or unix seconds.
        until: only requests that arrived before this instant.
        where: count only these requests as waiting; all requests hold workers and are ahead in the queues.

    Returns:
        The averages over all backends (``overall``) and per backend, ``seen`` on arrival and ``over_time``.

    Raises:
        SojournError: a source cannot be read, or a column does not exist.
    """
    source = requests_from(
        requests, spans=spans, app_log=app_log, since=since, until=until, where=where, workers=workers
    )
    source, conditions = with_all_holders(source, where)
    visited = visits_of(source, columns=(COLUMN, *conditions), workers=workers)
    return depth_of(visited, where=conditions, queue_source=queue_source_of(source, visited.table.lazy()))
