"""Goodput of sources, splits or frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sojourn.analyses.goodput.analysis import GoodputResult
from sojourn.analyses.goodput.analysis import goodput as goodput_of_rows
from sojourn.model.instants import Instant
from sojourn.readers.app_log import read_app_log
from sojourn.readers.inputs import Source, listed
from sojourn.sources.open_requests import Where
from sojourn.sources.opening import RequestsLike, requests_from


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
    """Measure the worker time spent on abandoned requests (499, 504), the goodput, and retry storms.

    >>> shop, spans = "docs/examples/shop.jsonl.gz", "docs/examples/shop-spans.jsonl.gz"
    >>> print(sojourn.goodput(shop, spans=spans))
    41.5 s of worker time, 13 % of all, went into 108 abandoned requests, 93 % of it into /export.

    Args:
        requests: sources, a split, or a frame. Of a split, clients' own retries are detected if ``remote_addr``,
            ``method`` and ``uri`` were among its columns.
        by: column to group by.
        app_log: the app's own log, as for ``sojourn.split``, of requests without a span.
        spans: the app's spans, if ``requests`` are sources.
        since: only requests that arrived at or after this instant: ISO 8601 with a zone, an aware
            datetime, or unix seconds.
        until: only requests that arrived before this instant.
        where: only requests with these values.

    Returns:
        Wasted worker seconds in total and per group, goodput over time, and the retry storms.

    Raises:
        SojournError: a source cannot be read, or a column does not exist.
    """
    columns = (by, "remote_addr", "method", "uri")
    source = requests_from(requests, columns=columns, spans=spans, since=since, until=until, where=where)
    logs = listed(app_log)
    late = read_app_log(logs) if logs else None
    result = goodput_of_rows(source.rows, by=by, app_log=None if late is None else late.rows)
    return replace(result, app_log=None if late is None else late.records, of_app=source.of_app)
