"""The columns that a split can be grouped by, short names of times, and the names of routes; loads without Polars."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sojourn.model.formatting import counted

if TYPE_CHECKING:
    import polars as pl

GROUPS = ("route", "upstream", "worker", "status", "service")
DEFAULT_GROUPS = ("route", "upstream")
LARGEST = 1_000  # values of a group, and backends, with entries of their own; the others are counted
TIMES = {"response": "request_time", "queueing": "queueing_delay", "service": "service_time"}


def largest_alone(others: Mapping[str, Mapping[str, int]], name: str, largest: str, rest: str) -> list[str]:
    """Return the sentence that only the ``LARGEST`` backends have an entry in a list; empty where each has one.

    Args:
        others: list -> ``values`` (number) and ``requests`` of the backends without an entry.
        name: of the list.
        largest: what is done with the largest, as a clause.
        rest: what is done with the others, as a clause.
    """
    if name not in others:
        return []
    more = others[name]
    return [
        f"Only the {LARGEST:,} backends with the most requests {largest}; {counted(more['values'], 'other')} with "
        f"{counted(more['requests'], 'request')} {rest}."
    ]


def route_name(rows: pl.LazyFrame | pl.DataFrame) -> pl.Expr:
    """Return the expression for the name of a route: "shop /", if the rows are of several services; "/" otherwise."""
    import polars as pl  # noqa: PLC0415 - takes its time to load

    route = pl.col("route")
    names = rows.lazy().collect_schema().names()
    if "service" not in names:
        return route
    services = rows.lazy().select(pl.col("service").drop_nulls().n_unique()).collect(engine="streaming").item()
    if services < 2:
        return route
    both = pl.col("service").is_not_null() & route.is_not_null()
    return pl.when(both).then(pl.concat_str("service", "route", separator=" ")).otherwise(route).alias("route")
