"""Queueing laws of sources, splits or frames."""

from __future__ import annotations

from collections.abc import Sequence

from sojourn.analyses.audit.analysis import audit_of
from sojourn.analyses.laws.analysis import Laws
from sojourn.analyses.laws.analysis import laws as laws_of_visits
from sojourn.analyses.queue_source import COLUMN, explained, queue_source_of
from sojourn.model.errors import SojournError
from sojourn.model.instants import Instant
from sojourn.readers.inputs import Source
from sojourn.sources.open_requests import Where, refuse_part_of_backends
from sojourn.sources.opening import RequestsLike, requests_from
from sojourn.timeline.visits import WorkersLike
from sojourn.timeline.visits_of import visits_of


def laws(
    requests: RequestsLike,
    *,
    workers: WorkersLike = None,
    spans: Sequence[Source] | Source = (),
    app_log: Sequence[Source] | Source = (),
    since: Instant = None,
    until: Instant = None,
    where: Where = None,
) -> Laws:
    """Compare the measured wait with queueing laws, per upstream and backend.

    >>> result = sojourn.laws("docs/examples/clocks.jsonl.gz")
    >>> result.stations[0].believe
    'allen_cunneen'

    Arguments as of ``sojourn.depth``. Of a frame, nothing is known of whether it was stationary.

    Raises:
        SojournError: a source cannot be read, or no backend has enough requests.
    """
    source = requests_from(
        requests, spans=spans, app_log=app_log, since=since, until=until, where=where, workers=workers
    )
    refuse_part_of_backends(source)
    audit = audit_of(source) if source.audited else None
    visited = visits_of(source, columns=(COLUMN,), workers=workers)
    try:
        return laws_of_visits(visited, audit, queue_source=queue_source_of(source, visited.table.lazy()))
    except SojournError as error:
        raise explained(error, source) from None
