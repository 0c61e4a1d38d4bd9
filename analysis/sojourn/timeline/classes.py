"""Classes of requests by the values of a column, and the largest classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sojourn.model.arrays import Bools, Floats, Ints
from sojourn.model.errors import SojournError
from sojourn.model.frame import HALF_MICROSECOND, is_extra
from sojourn.model.groups import route_name
from sojourn.timeline.ordered_rows import OrderedRows

MOST_CLASSES = 50
OTHER = "(other)"
NO_VALUE = "–"  # the class of requests without a value in the column


def classes_of(values: pl.Series) -> tuple[Ints, list[str]]:
    """Return the class of each request, as an index, and the names of the classes in alphabetical order."""
    text = values.cast(pl.String).fill_null(NO_VALUE)
    names = text.unique().sort().to_list()
    return codes_of(text, names), names


def codes_of(values: pl.Series, names: list[str]) -> Ints:
    """Return the index of each value in ``names``, which holds all of them once; null is ``len(names)``."""
    codes = values.cast(pl.Enum(names)).to_physical() if names else values.cast(pl.UInt32)
    return codes.fill_null(len(names)).to_numpy().astype(np.int64)


def small_codes(codes: Ints) -> npt.NDArray[np.integer[Any]]:
    """Return codes in 16 bits if they fit: these are sorted by radix."""
    return codes.astype(np.uint16) if codes.max(initial=0) <= np.iinfo(np.uint16).max else codes


def named_column(rows: pl.DataFrame | OrderedRows, column: str) -> pl.Series:
    """Return a column whose values are classes: routes with the name of their service, where there are several."""
    if column != "route" or "service" not in rows.columns:
        return rows[column]
    table = pl.DataFrame({"service": rows["service"], "route": rows["route"]})
    return table.select(route_name(table)).to_series()


def checked_column(values: pl.Series, column: str) -> pl.Series:
    """Check a column that the user named.

    Raises:
        SojournError: it is a custom key that no request has, most likely a typing error.
    """
    if len(values) and is_extra(column) and values.null_count() == len(values):
        raise SojournError(f"no request has a value for {column!r}: the log has no such key")
    return values


def selected_by(rows: pl.DataFrame | OrderedRows, where: Mapping[str, object]) -> Bools:
    """Return which rows have the values of ``where``, as ``having``.

    Raises:
        SojournError: there are rows, and none has them.
    """
    selected = having(rows, where)
    if where and not selected.any():
        conditions = ", ".join(f"{column} = {value}" for column, value in where.items())
        raise SojournError(f"no request with a known wait meets the condition ({conditions})")
    return selected


def having(rows: pl.DataFrame | OrderedRows, where: Mapping[str, object]) -> Bools:
    """Return which rows have the values of ``where`` (column -> value); durations are compared to the microsecond."""
    chosen = np.ones(len(rows), np.bool_)
    for column, value in where.items():
        values = rows[column]
        equal = pl.col(column).eq(pl.lit(value))
        if isinstance(value, int | float) and values.dtype == pl.Float64:
            equal = (pl.col(column) - value).abs() < HALF_MICROSECOND
        chosen &= values.to_frame().select(equal.fill_null(False)).to_series().to_numpy()
    return chosen


def largest(codes: Ints, names: list[str], weight: Floats) -> tuple[Ints, list[str]]:
    """Return at most ``MOST_CLASSES`` classes, those with the largest weight, and one class for all others."""
    if len(names) <= MOST_CLASSES:
        return codes, names
    heaviest = np.sort(np.argsort(-weight, kind="stable")[:MOST_CLASSES])
    place = np.full(len(names), MOST_CLASSES, np.int64)
    place[heaviest] = np.arange(MOST_CLASSES)
    return place[codes], [*(names[i] for i in heaviest), OTHER]


def summed(codes: Ints, values: Floats, count: int) -> Floats:
    """Return the sum of ``values`` of each of ``count`` classes."""
    return np.bincount(codes, values, count).astype(np.float64)
