"""Parquet files written by ``sojourn split --parquet``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from sojourn.model.errors import SojournError
from sojourn.model.frame import checked
from sojourn.readers.record import IDENTITY, RECORD


def read_parquet(path: Path, extra: Sequence[str] = ()) -> pl.LazyFrame:
    """Return a frame written by ``sojourn split --parquet`` (columns the split added are recomputed, not trusted).

    ``extra``: columns of the user's own to keep. The column ``record`` distinguishes rows of one request id from each
    other; null where there is no request id.
    """
    has_id = pl.col("request_id").is_not_null() & (pl.col("request_id") != "")
    try:
        rows = checked(pl.scan_parquet(path), str(path), extra)
        return rows.with_columns(pl.when(has_id).then(pl.struct(IDENTITY).hash()).alias(RECORD))
    except (OSError, pl.exceptions.PolarsError) as error:
        raise SojournError(f"{path}: not a readable Parquet file ({str(error).splitlines()[0]})") from error
