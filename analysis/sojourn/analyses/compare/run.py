"""Comparison of sources, splits or frames."""

from __future__ import annotations

from collections.abc import Sequence

from sojourn.analyses.compare.analysis import Comparison
from sojourn.analyses.compare.analysis import compare as compare_splits
from sojourn.analyses.split.run import split_from
from sojourn.model.errors import SojournError
from sojourn.model.instants import Instant, limit_of
from sojourn.readers.inputs import Source
from sojourn.sources.open_requests import Where
from sojourn.sources.opening import RequestsLike


def compare(
    a: RequestsLike,
    b: RequestsLike | None = None,
    *,
    at: Instant = None,
    by: str = "route",
    names: tuple[str, str] | None = None,
    spans: Sequence[Source] | Source = (),
    app_log: Sequence[Source] | Source = (),
    since: Instant = None,
    until: Instant = None,
    where: Where = None,
) -> Comparison:
    """Compare two sets of requests: changes with their intervals, by component and by group.

    >>> shop = "docs/examples/shop.jsonl.gz"
    >>> result = sojourn.compare(shop, at=1767225660.0)  # before and after the rise of /export
    >>> result.names
    ('before', 'after')

    Args:
        a: sources, a split or a frame; a split has ``by`` among its columns.
        b: as ``a``; None: ``at`` divides ``a``.
        at: instead of ``b``: compare ``a`` before this instant with ``a`` from it on, an
            instant as for ``since``.
        by: column to attribute the change to.
        names: names of the sides; None: A and B, or before and after.
        spans: the app's spans, if the sides are sources.
        app_log: the app's own access log, as for ``sojourn.split``.
        since: only requests that arrived at or after this instant: ISO 8601 with a zone, an aware
            datetime, or unix seconds.
        until: only requests that arrived before this instant.
        where: only requests with these values.

    Returns:
        The changes of figures, components and groups, with 95 % intervals.

    Raises:
        SojournError: a source cannot be read, a side has no request, or not exactly one of ``b`` and ``at`` is given.
    """
    if (b is None) == (at is None):
        raise SojournError("compare takes two sides, or one side and the instant at which to divide it (at=…)")
    middle = limit_of(at, "at")
    ends = ((since, middle or until), (middle or since, until))
    first, second = (
        split_from(side, columns=(by,), spans=spans, app_log=app_log, since=begin, until=end, where=where, by=())
        for side, (begin, end) in zip((a, a if b is None else b), ends, strict=True)
    )
    return compare_splits(first, second, by=by, names=names or (("A", "B") if at is None else ("before", "after")))
