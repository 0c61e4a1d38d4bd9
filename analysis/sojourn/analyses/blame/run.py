"""Blame of sources, splits or frames."""

from __future__ import annotations

from collections.abc import Sequence

from sojourn.analyses.blame.analysis import TOLERANCE, BlameResult, blame_of
from sojourn.analyses.queue_source import COLUMN, queue_source_of
from sojourn.model.column_errors import not_read
from sojourn.model.errors import SojournError
from sojourn.model.instants import Instant
from sojourn.readers.inputs import Source
from sojourn.sources.open_requests import Where, with_all_holders
from sojourn.sources.opening import RequestsLike, requests_from
from sojourn.timeline.visits import WorkersLike
from sojourn.timeline.visits_of import visits_of


def blame(
    requests: RequestsLike,
    *,
    by: str = "route",
    culprit: str | None = None,
    workers: WorkersLike = None,
    spans: Sequence[Source] | Source = (),
    app_log: Sequence[Source] | Source = (),
    since: Instant = None,
    until: Instant = None,
    where: Where = None,
) -> BlameResult:
    """Charge every instant of every wait to the requests in service, the balancer or the network.

    >>> shop, spans = "docs/examples/shop.jsonl.gz", "docs/examples/shop-spans.jsonl.gz"
    >>> result = sojourn.blame(shop, spans=spans, by="tenant")
    >>> [(row["culprit"], round(row["share"], 2)) for row in result.culprits.to_dicts()]
    [('acme', 0.63), ('globex', 0.3), ('initech', 0.07)]

    Args:
        requests: sources, a split, or a frame; see ``sojourn.sources.opening.requests_from``.
        by: column that names the victims, the requests that waited.
        culprit: column that names the culprits, the requests they waited for; None: the same as ``by``.
        workers: number of workers per backend, or one number for all; None: derived from the worker values.
        spans: the app's spans, if ``requests`` are sources.
        app_log: the app's own access log, as for ``sojourn.split``.
        since: only requests that arrived at or after this instant: ISO 8601 with a zone, an aware
            datetime, or unix seconds.
        until: only requests that arrived before this instant.
        where: count only the waits of requests with these values; all requests can be culprits.

    Returns:
        Seconds by culprit (``culprits``) and by pair (``matrix``), and the rest (``imbalance``, ``dispatch``).

    Raises:
        SojournError: a source cannot be read, or a column does not exist.
    """
    columns = (by, culprit or by, *(where or {}))
    source = requests_from(
        requests, columns=(*columns, "uri"), spans=spans, app_log=app_log, since=since, until=until, workers=workers
    )
    names = source.rows.collect_schema().names()
    for column in columns:
        if column not in names:
            raise SojournError(not_read(column, names))
    source, conditions = with_all_holders(source, where)
    columns = (*columns, *conditions)
    visited = visits_of(source, columns=(*columns, COLUMN, TOLERANCE), workers=workers)
    queue_source = queue_source_of(source, visited.table.lazy())
    return blame_of(visited, by=by, culprit_by=culprit, where=conditions, queue_source=queue_source)
