"""A Parquet file as the lines of a table of comma-separated values."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import polars as pl

from sojourn.model.errors import SojournError, reason_of
from sojourn.readers.tables.beginning import Beginning

ROWS = 100_000  # written at a time


class ParquetTable:
    """A Parquet file of any columns.

    Attributes:
        names: of the columns whose values are no lists and no objects.
        units: column -> unit that its type has: datetimes and durations are written as microseconds.
    """

    def __init__(self, path: Path) -> None:
        """Open the file.

        Raises:
            SojournError: it is not readable.
        """
        try:
            self._rows = pl.scan_parquet(path)
            schema = self._rows.collect_schema()
            self._count = int(self._rows.select(pl.len()).collect().item())
        except (OSError, pl.exceptions.PolarsError) as error:
            raise SojournError(f"{path}: not a readable Parquet file ({reason_of(error)})") from error
        flat = {name: dtype for name, dtype in schema.items() if not dtype.is_nested() and dtype != pl.Binary}
        self.path, self.names = path, tuple(flat)
        self.units = {name: "us" for name, dtype in flat.items() if dtype.base_type() in (pl.Datetime, pl.Duration)}
        self._columns = [_written(name, dtype) for name, dtype in flat.items()]

    def lines(self, raw: BinaryIO, size: int) -> Iterator[bytes]:
        """Yield the rows as lines; the position of ``raw`` (``size`` bytes) follows them, for the progress."""
        for begin in range(0, self._count, ROWS):
            yield self._written_rows(begin, ROWS)
            raw.seek(size * min(begin + ROWS, self._count) // self._count)

    def _written_rows(self, begin: int, count: int) -> bytes:
        try:
            rows = self._rows.slice(begin, count).select(self._columns).collect()
        except (OSError, pl.exceptions.PolarsError) as error:
            raise SojournError(f"{self.path}: not a readable Parquet file ({reason_of(error)})") from error
        return rows.write_csv(include_header=False, float_scientific=False).encode()

    def beginning(self, count: int) -> Beginning:
        """Return the line of names and the first rows."""
        header = self._rows.head(0).select(self._columns).collect().write_csv()
        return Beginning(header.encode(), self._written_rows(0, count), self._count <= count)


def _written(name: str, dtype: pl.DataType) -> pl.Expr:
    column = pl.col(name)
    if isinstance(dtype, pl.Datetime):
        return column.dt.epoch("us")
    if isinstance(dtype, pl.Duration):
        return column.dt.total_microseconds()
    # A line end would divide a row.
    return column.str.replace_all(r"[\r\n]+", " ") if dtype == pl.String else column
