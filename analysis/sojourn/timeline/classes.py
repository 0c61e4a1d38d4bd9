"""Requests by the values of a column, and the few values that matter."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import polars as pl

from sojourn.model.errors import SojournError
from sojourn.model.frame import HALF_MICROSECOND, is_extra

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

MOST_CLASSES = 50
OTHER = "(other)"
NO_VALUE = "–"  # requests that have no value in the column


def classes_of(values: pl.Series) -> tuple[Ints, list[str]]:
    """The class of each request, as an index, and the names of the classes in alphabetical order."""
    text = values.cast(pl.String).fill_null(NO_VALUE)
    names = text.unique().sort().to_list()
    codes = text.replace_strict(names, range(len(names)), return_dtype=pl.Int64) if names else text.cast(pl.Int64)
    return codes.to_numpy().astype(np.int64), names


def checked_column(values: pl.Series, column: str) -> pl.Series:
    """Return ``values``, unless the column is a user's own key that no request has: most likely a typing error.

    Raises:
        SojournError: it is.
    """
    if len(values) and is_extra(column) and values.null_count() == len(values):
        raise SojournError(f"no request has a value for {column!r}: the log has no such key")
    return values


def having(frame: pl.DataFrame, where: Mapping[str, object]) -> Bools:
    """Which rows have these values: column -> value. Durations are equal to the microsecond."""
    chosen = np.ones(len(frame), np.bool_)
    for column, value in where.items():
        equal = pl.col(column).eq(pl.lit(value))
        if isinstance(value, int | float) and frame[column].dtype == pl.Float64:
            equal = (pl.col(column) - value).abs() < HALF_MICROSECOND
        chosen &= frame.select(equal.fill_null(False)).to_series().to_numpy()
    return chosen


def largest(codes: Ints, names: list[str], weight: Floats, most: int = MOST_CLASSES) -> tuple[Ints, list[str]]:
    """At most ``most`` classes, those of the largest weight, and one for all others where there are more."""
    if len(names) <= most:
        return codes, names
    kept = np.sort(np.argsort(-weight, kind="stable")[:most])
    place = np.full(len(names), most, np.int64)
    place[kept] = np.arange(most)
    return place[codes], [*(names[i] for i in kept), OTHER]


def summed(codes: Ints, values: Floats, count: int) -> Floats:
    """The sum of ``values`` of each of ``count`` classes."""
    return np.bincount(codes, values, count).astype(np.float64)
