"""Exact quantiles of a time, over all requests or by columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import polars as pl

from sojourn.model.column_errors import not_read
from sojourn.model.errors import ArgumentError, SojournError
from sojourn.model.groups import TIMES
from sojourn.model.instants import Instant
from sojourn.readers.inputs import Source
from sojourn.sources.frame_measures import without_upgraded
from sojourn.sources.open_requests import Where
from sojourn.sources.opening import RequestsLike, requests_from


@overload
def quantile(
    requests: RequestsLike,
    q: float,
    *,
    of: str = "request_time",
    by: None = None,
    spans: Sequence[Source] | Source = (),
    app_log: Sequence[Source] | Source = (),
    since: Instant = None,
    until: Instant = None,
    where: Where = None,
) -> float | None: ...


@overload
def quantile(
    requests: RequestsLike,
    q: Sequence[float],
    *,
    of: str = "request_time",
    by: None = None,
    spans: Sequence[Source] | Source = (),
    app_log: Sequence[Source] | Source = (),
    since: Instant = None,
    until: Instant = None,
    where: Where = None,
) -> pl.DataFrame: ...


@overload
def quantile(
    requests: RequestsLike,
    q: float | Sequence[float],
    *,
    of: str = "request_time",
    by: str | Sequence[str],
    spans: Sequence[Source] | Source = (),
    app_log: Sequence[Source] | Source = (),
    since: Instant = None,
    until: Instant = None,
    where: Where = None,
) -> pl.DataFrame: ...


def quantile(
    requests: RequestsLike,
    q: float | Sequence[float],
    *,
    of: str = "request_time",
    by: str | Sequence[str] | None = None,
    spans: Sequence[Source] | Source = (),
    app_log: Sequence[Source] | Source = (),
    since: Instant = None,
    until: Instant = None,
    where: Where = None,
) -> float | pl.DataFrame | None:
    """Return exact quantiles of a time, over all requests or by columns.

    >>> shop = "docs/examples/shop.jsonl.gz"
    >>> sojourn.quantile(shop, 0.99)
    4.0
    >>> sojourn.quantile(shop, [0.5, 0.99], of="queueing_delay", by="route").columns
    ['route', 'q', 'requests', 'queueing_delay']

    Args:
        requests: sources, a split, or a frame, such as a part of ``rows``.
        q: the share of requests that take as long or less, from 0 to 1: 0.99 for p99; or several.
        of: the time: request_time, queueing_delay, service_time, or another column of ``rows`` in seconds.
        by: column or columns to group by; None: over all requests.
        spans: the app's spans, if ``requests`` are sources.
        app_log: the app's own access log, as for ``sojourn.split``.
        since: only requests that arrived at or after this instant: ISO 8601 with a zone, an aware
            datetime, or unix seconds.
        until: only requests that arrived before this instant.
        where: only requests with these values.

    Returns:
        Seconds, linear between order statistics (Hyndman & Fan 1996, definition 7), for a single ``q`` without ``by``;
        None without requests whose time is known. Otherwise a frame with the columns of ``by``, ``q``, ``requests``
        (those whose time is known) and the time; groups with the most requests first.

    Raises:
        SojournError: a source cannot be read, ``q`` is not from 0 to 1, or a column does not exist.
    """
    groups = () if by is None else (by,) if isinstance(by, str) else tuple(by)
    column = TIMES.get(of, of)
    source = requests_from(
        requests, columns=(*groups, column), spans=spans, app_log=app_log, since=since, until=until, where=where
    )
    return quantiles_of(source.rows, q, column, groups)


def quantiles_of(
    rows: pl.LazyFrame, q: float | Sequence[float], column: str, groups: Sequence[str]
) -> float | pl.DataFrame | None:
    """Return ``quantile`` of rows with components, without upgraded connections.

    Raises:
        SojournError: ``q`` is not from 0 to 1, or a column does not exist or is no time.
    """
    levels = [float(q)] if isinstance(q, int | float) else [float(each) for each in q]
    for level in levels:
        if not 0 <= level <= 1:
            hint = f"; {level / 100:g} is p{level:g}" if 1 < level <= 100 else ""
            raise ArgumentError(f"q: {level:g} is not a share from 0 to 1{hint}")
    schema = rows.collect_schema()
    for name in (*groups, column):
        if name not in schema:
            raise SojournError(not_read(name, schema))
    if not schema[column].is_float():
        times = ", ".join(name for name in schema if schema[name].is_float())
        raise ArgumentError(f"of: column {column!r} is no time in seconds; choose from {times}")
    value = pl.col(column)
    figures = [value.count().alias("requests")]
    figures += [value.quantile(level, "linear").alias(f"level {place}") for place, level in enumerate(levels)]
    served = without_upgraded(rows)
    table = (served.group_by(*groups).agg(figures) if groups else served.select(figures)).collect(engine="streaming")
    if not groups and isinstance(q, int | float):
        one: float | None = table.item(0, "level 0")
        return one
    table = table.sort("requests", *groups, descending=[True, *(False for _ in groups)], nulls_last=True)
    names = [name for name in table.columns if name.startswith("level ")]
    return table.select(
        *groups,
        pl.concat_list(pl.lit(level) for level in levels).alias("q"),
        "requests",
        pl.concat_list(names).alias(column),
    ).explode("q", column)
