"""Two sets of requests in, what changed out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from sojourn.analyses.compare.analysis import Comparison
from sojourn.analyses.compare.analysis import compare as compare_splits
from sojourn.analyses.split.run import split_from
from sojourn.model.errors import SojournError
from sojourn.readers.inputs import Source
from sojourn.sources.open_requests import Instant, Where
from sojourn.sources.opening import RequestsLike


def compare(
    a: RequestsLike,
    b: RequestsLike | None = None,
    *,
    at: Instant = None,
    by: str = "route",
    names: tuple[str, str] | None = None,
    spans: Sequence[Source] | Source = (),
    since: Instant = None,
    until: Instant = None,
    where: Where = None,
) -> Comparison:
    """What changed from ``a`` to ``b``, for certain or by chance, and which component and group did it.

    >>> shop = "docs/examples/shop.jsonl.gz"
    >>> result = sojourn.compare(shop, at=1767225660.0)  # before and after more exports came
    >>> result.names
    ('before', 'after')

    Args:
        a, b: sources, splits or frames; of a split, ``by`` is among its columns.
        at: instead of ``b``: ``a`` before this instant against ``a`` from then on; aware datetime or unix seconds.
        by: column to attribute the change to.
        names: of the sides.
        spans, since, until, where: of sources and frames, only these requests.

    Raises:
        SojournError: a source cannot be read, a side has no request, or not one of ``b`` and ``at`` is given.
    """
    if (b is None) == (at is None):
        raise SojournError("compare takes two sides, or one and the instant at which to divide it (at=…)")
    middle = None if at is None else _instant(at)
    ends = ((since, middle or until), (middle or since, until))
    first, second = (
        split_from(side, columns=(by,), spans=spans, since=begin, until=end, where=where, by=())
        for side, (begin, end) in zip((a, a if b is None else b), ends, strict=True)
    )
    return compare_splits(first, second, by=by, names=names or (("A", "B") if at is None else ("before", "after")))


def _instant(at: datetime | float) -> datetime:
    return at if isinstance(at, datetime) else datetime.fromtimestamp(at, UTC)
