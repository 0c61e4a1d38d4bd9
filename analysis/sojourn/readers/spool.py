"""Collect rows for a frame: in memory, or in Parquet files of a temporary folder if they are many."""

from __future__ import annotations

import itertools
import tempfile
from collections import deque
from pathlib import Path

import polars as pl

from sojourn.model.errors import SojournError, reason_of
from sojourn.model.memory import memory

ROWS_IN_MEMORY = 1_500_000
ROWS_IN_MEMORY_AT_MOST = 4_000_000
ROW_BYTES = 1_500  # what a row takes in the memory of the analyses that take most
ROWS_PER_FILE = 500_000
ROWS_PER_GROUP = 100_000  # groups of larger files are smaller than the default: several are in memory at once


def on_disk(rows: pl.LazyFrame, *, statistics: bool = False) -> tuple[pl.LazyFrame, tempfile.TemporaryDirectory[str]]:
    """Write rows to a temporary folder and return them with the folder, which is removed with its last reference.

    Args:
        rows: the rows.
        statistics: write the least and greatest value of each column in each part, so that a filter can skip parts.

    Raises:
        SojournError: the temporary folder has no space.
    """
    where = "a temporary folder"
    try:
        folder = tempfile.TemporaryDirectory(prefix="sojourn-")
        where = folder.name
        path = Path(where) / "rows.parquet"
        rows.sink_parquet(path, compression="lz4", statistics=statistics, row_group_size=ROWS_PER_GROUP)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise _no_room(where, error) from error
    return pl.scan_parquet(path), folder


def rows_in_memory(expected: int | None) -> int:
    """Return the number of rows to hold before they go to disk; ``expected``: rows in all; None: unknown.

    As many as a quarter of the memory has room for, up to ``ROWS_IN_MEMORY_AT_MOST``.
    """
    room = max(min(memory() // 4 // ROW_BYTES, ROWS_IN_MEMORY_AT_MOST), ROWS_IN_MEMORY)
    return room if expected is not None and expected <= room else ROWS_IN_MEMORY


def _no_room(where: str, error: Exception) -> SojournError:
    why = f"cannot write the rows to {where} ({reason_of(error)})"
    return SojournError(f"{why}; set TMPDIR to another folder")


class Spool:
    """Collects frames with equal columns.

    Attributes:
        folder: folder of the rows if they are many; removed with its last reference.
    """

    def __init__(self) -> None:
        self.folder: tempfile.TemporaryDirectory[str] | None = None
        self._in_memory: deque[pl.DataFrame] = deque()
        self._row_count = 0
        self._files = itertools.count()

    def add(self, rows: pl.DataFrame, expected: int | None = None) -> None:
        """Add rows; ``expected``: as for ``rows_in_memory``.

        Raises:
            SojournError: the temporary folder has no space.
        """
        self._in_memory.append(rows)
        self._row_count += len(rows)
        if self._row_count >= (ROWS_PER_FILE if self.folder is not None else rows_in_memory(expected)):
            self._spill()

    def frames(self) -> list[pl.LazyFrame]:
        """Return all rows."""
        if self.folder is not None:
            self._spill()
            return [pl.scan_parquet(Path(self.folder.name) / "*.parquet")]
        return [pl.concat(self._in_memory).lazy()] if self._in_memory else []

    def _spill(self) -> None:
        where = self.folder.name if self.folder is not None else "a temporary folder"
        try:
            if self.folder is None:
                self.folder = tempfile.TemporaryDirectory(prefix="sojourn-")
                where = self.folder.name
            while self._in_memory:
                # Of those that were held in memory, a few at a time: a writer needs as much memory again.
                rows = self._in_memory.popleft()
                while self._in_memory and len(rows) + len(self._in_memory[0]) <= ROWS_PER_FILE:
                    rows = rows.vstack(self._in_memory.popleft())
                path = Path(where) / f"{next(self._files):06}.parquet"
                rows.write_parquet(path, compression="lz4", statistics=False, row_group_size=ROWS_PER_GROUP)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise _no_room(where, error) from error
        self._row_count = 0
