"""Clock offsets over time of sources, splits or frames."""

from __future__ import annotations

from collections.abc import Sequence

from sojourn.analyses.clock.analysis import ClockResult
from sojourn.analyses.clock.analysis import clock as clock_of_rows
from sojourn.model.instants import Instant
from sojourn.readers.inputs import Source
from sojourn.sources.open_requests import Where
from sojourn.sources.opening import RequestsLike, requests_from


def clock(
    requests: RequestsLike,
    *,
    spans: Sequence[Source] | Source = (),
    app_log: Sequence[Source] | Source = (),
    since: Instant = None,
    until: Instant = None,
    where: Where = None,
) -> ClockResult:
    """Return the offset and drift of each app's clock from nginx's over time, with their uncertainty.

    >>> result = sojourn.clock("docs/examples/clocks.jsonl.gz")
    >>> [row["offset"] is not None for row in result.pairs]
    [True, True, True]

    Arguments and errors as of ``sojourn.depth``.
    """
    return clock_of_rows(
        requests_from(requests, spans=spans, app_log=app_log, since=since, until=until, where=where).rows
    )
