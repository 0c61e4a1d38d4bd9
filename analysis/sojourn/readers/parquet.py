"""Parquet files written by ``sojourn split --parquet``; others are tables, read by the roles of their columns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from sojourn.model.errors import SojournError
from sojourn.model.frame import checked
from sojourn.readers.record import IDENTITY, RECORD
from sojourn.readers.tables.cells import cells_of
from sojourn.readers.tables.parquet_lines import ParquetTable
from sojourn.readers.tables.suggestion import ROWS, suggestion

REQUIRED = {"time", "status", "request_time"}


def refuse_other_table(path: Path) -> None:
    """Raise an error if a Parquet file has none of the columns of ``sojourn split --parquet``.

    Raises:
        SojournError: it has not; the text names its columns and the roles that are likely.
    """
    if set(pl.scan_parquet(path).collect_schema()) >= REQUIRED:
        return
    table = ParquetTable(path)
    rows = [cells_of(line, ",") for line in table.beginning(ROWS).lines]
    raise SojournError(str(suggestion(str(path), "a table (Parquet)", table.names, rows)))


def read_parquet(path: Path, extra: Sequence[str] = ()) -> pl.LazyFrame:
    """Return a frame written by ``sojourn split --parquet`` (columns the split added are recomputed, not trusted).

    ``extra``: columns of the user's own to keep. The column ``record`` distinguishes rows of one request id from each
    other; null where there is no request id.
    """
    has_id = pl.col("request_id").is_not_null() & (pl.col("request_id") != "")
    try:
        refuse_other_table(path)
        rows = checked(pl.scan_parquet(path), str(path), extra)
        return rows.with_columns(pl.when(has_id).then(pl.struct(IDENTITY).hash()).alias(RECORD))
    except (OSError, pl.exceptions.PolarsError) as error:
        raise SojournError(f"{path}: not a readable Parquet file ({str(error).splitlines()[0]})") from error
