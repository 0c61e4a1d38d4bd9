"""Convert NumPy arrays to Arrow arrays that share their memory.

``pyarrow.array`` does the same, but imports pandas if it is installed, which takes a third of a second.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def arrow(values: npt.NDArray[Any], null: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """Return one-dimensional numbers or booleans as an Arrow array of their type, null where ``null``."""
    data = bitmap(values) if values.dtype == np.bool_ else pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [_validity(null), data])


def texts(offsets: npt.NDArray[np.int32], data: Any, null: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """Return texts from their offsets in the bytes ``data``; null where ``null``."""
    buffers = [_validity(null), pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.string(), len(offsets) - 1, buffers)


def bitmap(true: npt.NDArray[np.bool_]) -> pa.Buffer:
    """Return booleans as bits, the first in the lowest."""
    return pa.py_buffer(np.packbits(true, bitorder="little"))


def _validity(null: npt.NDArray[np.bool_] | None) -> pa.Buffer | None:
    return None if null is None or not null.any() else bitmap(~null)
