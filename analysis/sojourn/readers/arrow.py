"""Arrow without PyArrow: Polars series of NumPy arrays whose memory they share, and frames of DuckDB's results."""

from __future__ import annotations

from typing import Any

import nanoarrow as na
import numpy as np
import numpy.typing as npt
import polars as pl
from nanoarrow import c_array_from_buffers

from sojourn.model.arrays import Bools, Ints

TYPES = {
    "bool": na.bool_(),
    "int16": na.int16(),
    "int32": na.int32(),
    "int64": na.int64(),
    "uint64": na.uint64(),
    "float64": na.float64(),
}


def series(values: npt.NDArray[Any], null: Bools | None = None) -> pl.Series:
    """Return one-dimensional numbers or booleans as a series of their type, null where ``null``."""
    data = bitmap(values) if values.dtype == np.bool_ else np.ascontiguousarray(values)
    return _series(TYPES[values.dtype.name], len(values), null, data)


def texts(offsets: npt.NDArray[np.int32], data: npt.NDArray[np.uint8], null: Bools | None = None) -> pl.Series:
    """Return texts from their offsets in the bytes ``data``, which are UTF-8; null where ``null``."""
    return _series(na.string(), len(offsets) - 1, null, offsets, data)


def octets(offsets: Ints, data: npt.NDArray[np.uint8], null: Bools | None = None) -> pl.Series:
    """Return values of bytes from their offsets in the bytes ``data``; null where ``null``."""
    return _series(na.large_binary(), len(offsets) - 1, null, offsets, data)


def frame_of(result: object) -> pl.DataFrame:
    """Return the rows of a result of DuckDB, or of another producer of an Arrow stream."""
    # Handed to Polars itself, a result of DuckDB is kept until the end of the process, which then complains of it.
    return pl.DataFrame(na.c_array_stream(result))


def bitmap(true: Bools) -> npt.NDArray[np.uint8]:
    """Return booleans as bits, the first in the lowest."""
    return np.packbits(true, bitorder="little")


def _series(kind: Any, length: int, null: Bools | None, *buffers: npt.NDArray[Any]) -> pl.Series:
    validity = None if null is None or not null.any() else bitmap(~null)
    missing = 0 if validity is None else -1  # -1: to be counted
    return pl.Series(c_array_from_buffers(kind, length, [validity, *buffers], null_count=missing))
