"""The columns of all requests that the overview bins: narrow, in the order of arrivals, on disk if they are many."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sojourn.model.arrays import Bools, Ints
from sojourn.model.errors import SojournError, reason_of
from sojourn.sources.frame_measures import SERVED, without_upgraded
from sojourn.sources.open_requests import OpenedRequests

DIMENSIONS = ("service", "route", "upstream", "worker", "status")
"""Columns that filter the requests of a view."""
TIMES = {"response": "request_time", "queueing": "queueing_delay", "service": "service_time"}
LOWEST, DECADES, PER_DECADE = 1e-4, 8, 16
"""The bins of the response time: logarithmic from ``LOWEST`` s; the first and the last have all beyond them."""
BINS = DECADES * PER_DECADE
IN_MEMORY = 4_000_000  # requests
BATCH = 1_000_000
SINGLE = np.float32
DTYPES: dict[str, npt.DTypeLike] = {
    "arrival": np.int64, "response": SINGLE, "queueing": SINGLE, "service": SINGLE, "bin": np.uint8,
    "combination": np.uint32,
}  # fmt: skip
LAST = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Combinations:
    """The combinations of values of ``DIMENSIONS`` that occur.

    Attributes:
        codes: dimension -> code of its value in each combination.
        values: dimension -> its values by code, as text; None: missing.
    """

    codes: Mapping[str, Ints]
    values: Mapping[str, tuple[str | None, ...]]

    def __len__(self) -> int:
        return len(self.codes[DIMENSIONS[0]])

    def chosen(self, where: Mapping[str, frozenset[str | None]]) -> Bools:
        """Return whether each combination has one of the values of each column of ``where``."""
        chosen = np.ones(len(self), np.bool_)
        for name, allowed in where.items():
            chosen &= np.array([value in allowed for value in self.values[name]], np.bool_)[self.codes[name]]
        return chosen

    def counts(self, name: str, requests: Ints) -> Ints:
        """Return the requests of each value of a dimension; ``requests``: of each combination."""
        return np.bincount(self.codes[name], requests, len(self.values[name])).astype(np.int64)


@dataclass(frozen=True)
class RequestColumns:
    """Columns of n requests in the order of their arrivals, without upgraded connections (101).

    Attributes:
        arrival: unix time, us.
        response, queueing, service: s, in single precision; NaN: unknown.
        bin: of the response time.
        combination: index into ``combinations``.
        combinations: of the values of ``DIMENSIONS``.
        folder: folder of the arrays if they are on disk; removed with its last reference.
    """

    arrival: Ints
    response: npt.NDArray[np.float32]
    queueing: npt.NDArray[np.float32]
    service: npt.NDArray[np.float32]
    bin: npt.NDArray[np.uint8]
    combination: npt.NDArray[np.uint32]
    combinations: Combinations
    folder: object = None

    def __len__(self) -> int:
        return len(self.arrival)

    def between(self, begin: int, end: int) -> slice:
        """Return the requests that arrived from ``begin`` to before ``end``, unix time, us."""
        low, high = np.searchsorted(self.arrival, (begin, end))
        return slice(int(low), int(high))


def columns_of(requests: OpenedRequests) -> RequestColumns:
    """Return the columns of opened requests.

    Raises:
        SojournError: a temporary folder has no space.
    """
    rows = requests.rows
    count, every = rows.select(SERVED.sum(), pl.len()).collect(engine="streaming").row(0)
    values, encoded = _values(without_upgraded(rows))
    sizes = [len(values[name]) for name in DIMENSIONS]
    code, stride = pl.lit(0, pl.UInt64), 1
    for name, size in zip(DIMENSIONS, sizes, strict=True):
        code += encoded[name].cast(pl.UInt64) * stride
        stride *= size
    table = rows.select(
        pl.col("start").dt.epoch("us").alias("arrival"),
        *(pl.col(column).cast(pl.Float32).fill_null(float("nan")).alias(name) for name, column in TIMES.items()),
        code.alias("code"),
        SERVED.alias("is_served"),
    )
    # A frame's ``unique`` streams; that of a column would hold the values of all rows.
    code_table = table.filter("is_served").select("code").unique().collect(engine="streaming")
    numbers = code_table.sort("code").with_row_index("combination")
    arrays = Arrays(count, None if count <= IN_MEMORY else _folder())
    for batch in _by_arrival(table, every):
        arrays.append(batch.join(numbers, on="code", how="left", maintain_order="left"))
    codes, remaining = {}, numbers["code"].to_numpy()
    for name, size in zip(DIMENSIONS, sizes, strict=True):
        codes[name] = (remaining % np.uint64(size)).astype(np.int64)
        remaining = remaining // np.uint64(size)
    return RequestColumns(**arrays.columns, combinations=Combinations(codes, values), folder=arrays.folder)


class Arrays:
    """The arrays of ``RequestColumns``, filled from the first request to the last; in files if there is a folder.

    Args:
        count: number of requests.
        folder: for the files; None: the arrays are in memory.

    Attributes:
        columns: name -> array.
        folder: as of ``RequestColumns``.

    Raises:
        SojournError: the folder has no space.
    """

    def __init__(self, count: int, folder: tempfile.TemporaryDirectory[str] | None) -> None:
        self.folder = folder
        self.columns: dict[str, npt.NDArray[Any]] = {}
        self._maps: list[mmap.mmap] = []
        self._filled = 0
        for name, dtype in DTYPES.items():
            if folder is None:
                self.columns[name] = np.empty(count, dtype)
            else:
                self._maps.append(_mapped(Path(folder.name) / name, count * np.dtype(dtype).itemsize))
                self.columns[name] = np.frombuffer(self._maps[-1], dtype)

    def append(self, batch: pl.DataFrame) -> None:
        """Add requests; what is written to files leaves this process's memory."""
        end = self._filled + len(batch)
        for name in ("arrival", *TIMES, "combination"):
            self.columns[name][self._filled : end] = batch[name].to_numpy()
        self.columns["bin"][self._filled : end] = bins_of(self.columns["response"][self._filled : end])
        self._filled = end
        for each in self._maps:
            each.madvise(mmap.MADV_DONTNEED)


def bins_of(response: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Return the bin of each response time (s)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        place = np.floor(np.log10(response / LOWEST) * PER_DECADE)
    return np.clip(np.nan_to_num(place, nan=0.0), 0, BINS - 1).astype(np.uint8)


def edge_of(number: int) -> float:
    """Return where a bin begins, s."""
    return float(LOWEST * 10 ** (number / PER_DECADE))


def _values(rows: pl.LazyFrame) -> tuple[dict[str, tuple[str | None, ...]], dict[str, pl.Expr]]:
    """Return the values of each dimension, and the expression of their codes."""
    texts = {name: pl.col(name).cast(pl.String) for name in DIMENSIONS}
    values, codes = {}, {}
    for name, text in texts.items():
        column = rows.select(text).unique().collect(engine="streaming").to_series()
        present = sorted(value for value in column if value is not None)
        values[name] = (*present, None)
        codes[name] = text.cast(pl.Enum(present)).to_physical().fill_null(len(present))
    return values, codes


def _by_arrival(table: pl.LazyFrame, count: int) -> Iterator[pl.DataFrame]:
    """Yield the rows that are served, in the order of ``arrival``, those of one arrival in their own order.

    Each batch is a slice of all ``count`` rows: a slice of the served ones would begin with the first row again. A row
    is held back while a later batch has an earlier arrival: in a log, those of the longest responses.
    """
    begins = range(0, count, BATCH)
    minimum = pl.col("arrival").filter("is_served").min()
    first = [table.slice(begin, BATCH).select(minimum.fill_null(LAST)).collect().item() for begin in begins]
    later = np.minimum.accumulate([LAST, *reversed(first)])[::-1][1:]  # of the batches after each
    held = table.head(0).collect()
    for begin, earliest in zip(begins, later.tolist(), strict=True):
        batch = table.slice(begin, BATCH).collect().filter("is_served")
        rows = pl.concat([held, batch]).sort("arrival", maintain_order=True)
        is_next = rows["arrival"] < earliest
        held = rows.filter(~is_next)
        yield rows.filter(is_next)


def _folder() -> tempfile.TemporaryDirectory[str]:
    try:
        return tempfile.TemporaryDirectory(prefix="sojourn-")
    except OSError as error:
        raise _no_room("a temporary folder", error) from error


def _mapped(path: Path, size: int) -> mmap.mmap:
    """Return a new file of ``size`` bytes, mapped."""
    try:
        with path.open("w+b") as file:
            os.posix_fallocate(file.fileno(), 0, max(size, 1))
            return mmap.mmap(file.fileno(), max(size, 1))
    except OSError as error:
        raise _no_room(str(path.parent), error) from error


def _no_room(where: str, error: OSError) -> SojournError:
    return SojournError(f"cannot write the columns to {where} ({reason_of(error)}); set TMPDIR to another folder")
