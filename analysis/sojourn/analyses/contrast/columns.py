"""The columns that are compared, and the code of each request's value.

Values of text and few numbers are compared as they are, many numbers as ranges between quantiles of all requests. The
choice depends on all requests alone, never on which of them are selected: the number of compared values remains valid
for the simultaneous intervals.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from sojourn.model.arrays import Ints
from sojourn.model.column_errors import not_read
from sojourn.model.errors import SojournError
from sojourn.model.frame import SCHEMA
from sojourn.model.groups import route_name
from sojourn.model.redaction import redacting
from sojourn.timeline.classes import OTHER

IDS = ("request_id", "trace_id", "span_id", "connection")
LISTS = ("upstream_addr", "upstream_status", "upstream_connect_time", "upstream_header_time", "upstream_response_time")
DESCRIPTIVE = tuple(
    name
    for name, dtype in SCHEMA.items()
    if name not in (*IDS, *LISTS) and (not dtype.is_temporal() and dtype != pl.Float64())
)
"""Canonical columns that describe a request: neither instants, times, ids, nor the lists of attempts."""

MOST_VALUES = 1_000  # of a column; the others are one
LEAST_REQUESTS = 5  # with a value, of all requests; values with fewer are one
RANGES = 8
PATH = r"^([^?#]*).*$"


class Coded(NamedTuple):
    """A column as numbers.

    Attributes:
        codes: of each request, index into ``names``; 16 bits.
        names: the compared values; None: no value.
    """

    codes: npt.NDArray[np.uint16]
    names: tuple[str | None, ...]


def columns_of(names: Iterable[str], more: Sequence[str]) -> tuple[str, ...]:
    """Return the columns to compare among those that were read.

    Args:
        names: the columns that were read.
        more: columns of the user's own.

    Raises:
        SojournError: one of ``more`` was not read.
    """
    present = list(names)
    for column in more:
        if column not in present:
            raise SojournError(not_read(column, present))
    return tuple(dict.fromkeys((*(name for name in DESCRIPTIVE if name in present), *more)))


def coded_column(rows: pl.DataFrame, column: str) -> Coded:
    """Return a column as codes; a route has the name of its service, where there are several.

    Args:
        rows: all requests, with ``column``, and with ``service`` for routes of several services.
        column: its name.
    """
    values = rows.select(route_name(rows)).to_series() if column == "route" else rows[column]
    if values.dtype.is_numeric() and values.n_unique() > RANGES and column != "status":
        return _ranges(values)
    text = values.cast(pl.String)
    if column == "uri" and redacting():
        text = text.str.replace(PATH, "$1")
    return _values(text)


def ordered_columns(rows: pl.DataFrame, columns: Sequence[str]) -> tuple[Ints, dict[str, Coded]]:
    """Return the order of the arrivals, and the codes of columns in that order; columns of one value are left out.

    Args:
        rows: the requests, in any order, with ``start`` and ``columns``.
        columns: the compared columns.
    """
    order = np.argsort(rows["start"].to_physical().to_numpy(), kind="stable")
    coded = {name: coded_column(rows, name) for name in columns}
    return order, {name: each._replace(codes=each.codes[order]) for name, each in coded.items() if len(each.names) > 1}


def _values(text: pl.Series) -> Coded:
    """Return the most frequent values as they are, the others as ``OTHER``; an empty text is no value."""
    text = text.replace("", None)
    counts = text.drop_nulls().value_counts(name="requests").filter(pl.col("requests") >= LEAST_REQUESTS)
    largest = counts.sort("requests", text.name, descending=[True, False]).head(MOST_VALUES)[text.name]
    codes = text.replace_strict(largest, np.arange(len(largest)), default=len(largest), return_dtype=pl.Int64)
    numbers = codes.to_numpy().copy()
    numbers[text.is_null().to_numpy()] = len(largest) + 1
    return _without_empty(numbers, (*largest, OTHER, None))


def _ranges(values: pl.Series) -> Coded:
    """Return numbers as ranges between their quantiles, each with about the same number of requests."""
    whole = values.dtype.is_integer()
    numbers = values.cast(pl.Float64).fill_nan(None)
    present = numbers.drop_nulls().to_numpy()
    edges = np.unique(np.quantile(present, np.arange(1, RANGES) / RANGES, method="higher"))
    edges = edges[edges > present.min()]
    codes = np.searchsorted(edges, numbers.fill_null(0.0).to_numpy(), side="right")
    codes[numbers.is_null().to_numpy()] = len(edges) + 1
    return _without_empty(codes, (*_names_of_ranges(edges.tolist(), whole=whole), None))


def _names_of_ranges(edges: Sequence[float], *, whole: bool) -> list[str]:
    """Return the names of the ranges below, between and above edges, each of which belongs to the range above it."""
    if not edges:
        return ["any number"]
    if whole:
        first, last = f"{int(edges[0]) - 1} or less", f"{int(edges[-1])} or more"
        pairs = [(int(low), int(high) - 1) for low, high in itertools.pairwise(edges)]
        return [first, *(f"{low} to {high}" if low < high else str(low) for low, high in pairs), last]
    between = [f"{low:.6g} to {high:.6g}" for low, high in itertools.pairwise(edges)]
    return [f"below {edges[0]:.6g}", *between, f"{edges[-1]:.6g} or more"]


def _without_empty(codes: Ints, names: tuple[str | None, ...]) -> Coded:
    """Return codes and names of the values that occur."""
    present = np.flatnonzero(np.bincount(codes, minlength=len(names)))
    place = np.zeros(len(names), np.uint16)
    place[present] = np.arange(len(present))
    return Coded(place[codes], tuple(names[code] for code in present))
