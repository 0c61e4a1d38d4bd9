"""Who waited for whom, how deep the queue was, and what work was for nobody."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sojourn.analyses.blame.analysis import BlameResult
from sojourn.analyses.blame.analysis import blame as blame_of_rows
from sojourn.analyses.depth.analysis import DepthResult
from sojourn.analyses.depth.analysis import depth as depth_of_rows
from sojourn.analyses.goodput.analysis import GoodputResult
from sojourn.analyses.goodput.analysis import goodput as goodput_of_rows
from sojourn.api.given import Instant, RequestsLike, Where, given
from sojourn.readers.inputs import Source, listed
from sojourn.timeline.visits import Visits
from sojourn.timeline.visits import visits as visits_of_rows

WorkersLike = int | Mapping[str, int] | None


def blame(
    requests: RequestsLike,
    *,
    by: str = "route",
    culprit: str | None = None,
    workers: WorkersLike = None,
    spans: Sequence[Source] | Source = (),
    since: Instant = None,
    until: Instant = None,
    where: Where = None,
) -> BlameResult:
    """Who waited for whom: every instant of every wait charged to those in service, the balancer or the way there.

    >>> shop, spans = "docs/examples/shop.jsonl.gz", "docs/examples/shop-spans.jsonl.gz"
    >>> found = sojourn.blame(shop, spans=spans, by="tenant")
    >>> [(row["culprit"], round(row["share"], 2)) for row in found.culprits.to_dicts()]
    [('acme', 0.63), ('globex', 0.3), ('initech', 0.07)]

    Args:
        requests: sources, a split, or a frame; see ``sojourn.api.given.given``.
        by, culprit: columns that name those who waited, and those they waited for (None: the same column).
        workers: per backend, or the same for all; None: read off the worker values.
        spans: the app's spans, where ``requests`` are sources.
        since, until: only requests that arrived in [since, until): aware datetimes or unix seconds.
        where: only the waits of requests with these values, whoever they waited for.

    Returns:
        Seconds by culprit (``culprits``) and by pair (``matrix``), and what is nobody's (``imbalance``, ``dispatch``).

    Raises:
        SojournError: a source cannot be read, or there is no such column.
    """
    columns = (by, culprit or by, *(where or {}), "uri")
    taken = given(requests, columns=columns, spans=spans, since=since, until=until)
    return blame_of_rows(taken.rows, by=by, culprit_by=culprit, workers=workers, where=where)


def depth(
    requests: RequestsLike,
    *,
    workers: WorkersLike = None,
    spans: Sequence[Source] | Source = (),
    since: Instant = None,
    until: Instant = None,
    where: Where = None,
) -> DepthResult:
    """How many requests waited and were in service, over time and on arrival, and how busy the workers were.

    >>> found = sojourn.depth("docs/examples/shop.jsonl.gz")
    >>> found.overall["workers"]
    4

    Arguments and errors as of ``sojourn.blame``; ``where`` leaves the other requests out.
    """
    taken = given(requests, spans=spans, since=since, until=until, where=where)
    return depth_of_rows(taken.rows, workers=workers)


def goodput(
    requests: RequestsLike,
    *,
    by: str = "route",
    app_log: Sequence[Source] | Source = (),
    spans: Sequence[Source] | Source = (),
    since: Instant = None,
    until: Instant = None,
    where: Where = None,
) -> GoodputResult:
    """Worker time that went into requests given up on (499, 504), what came of the rest, and retry storms.

    >>> shop, spans = "docs/examples/shop.jsonl.gz", "docs/examples/shop-spans.jsonl.gz"
    >>> print(sojourn.goodput(shop, spans=spans))
    41.5 s of worker time, 13 % of all, went into 108 requests that had been given up on, 93 % of it into /export.

    Args:
        requests: sources, a split, or a frame. Of a split, clients' own retries are found where ``remote_addr``,
            ``method`` and ``uri`` were among its columns.
        by: column to group by.
        app_log: the app's own log, JSON lines with ``request_id`` and ``service_time`` (s), of requests without a span.
        spans, since, until, where: as of ``sojourn.blame``; ``where`` leaves the other requests out.

    Raises:
        SojournError: a source cannot be read, or there is no such column.
    """
    columns = (by, "remote_addr", "method", "uri")
    taken = given(requests, columns=columns, spans=spans, since=since, until=until, where=where)
    logs = listed(app_log)
    late = None
    if logs:
        from sojourn.readers.app_log import read_app_log  # noqa: PLC0415 - where there is one

        late, _ = read_app_log(logs)
    return goodput_of_rows(taken.rows, by=by, app_log=late)


def visits(
    requests: RequestsLike,
    *,
    columns: Sequence[str] = (),
    workers: WorkersLike = None,
    waits_unknown: bool = False,
    spans: Sequence[Source] | Source = (),
    since: Instant = None,
    until: Instant = None,
    where: Where = None,
) -> Visits:
    """Requests as a queue sees them: arrival, end of the wait, begin and end of service, as arrays (s).

    >>> found = sojourn.visits("docs/examples/shop.jsonl.gz")
    >>> len(found.arrival), found.left_out["no_wait"]
    (2979, 108)

    Args:
        requests: sources, a split, or a frame.
        columns: to keep beside upstream, route, service, worker and status.
        workers: per backend, or the same for all; None: read off the worker values.
        waits_unknown: keep requests that nothing tells the wait of, with NaN for ``wait_end``.
        spans, since, until, where: as of ``sojourn.blame``; ``where`` leaves the other requests out.

    Raises:
        SojournError: a source cannot be read, or there is no such column.
    """
    taken = given(requests, columns=columns, spans=spans, since=since, until=until, where=where)
    return visits_of_rows(taken.rows, columns=columns, workers=workers, waits_unknown=waits_unknown)
