"""Parquet files written by ``sojourn split --parquet``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from sojourn.errors import SojournError
from sojourn.frame import checked


def read_parquet(path: Path, extra: Sequence[str] = ()) -> pl.LazyFrame:
    """A frame written by ``sojourn split --parquet`` (columns the split added are made anew, not trusted).

    ``extra``: columns of the user's own to keep.
    """
    try:
        return checked(pl.scan_parquet(path), str(path), extra)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise SojournError(f"{path}: not a readable Parquet file ({str(error).splitlines()[0]})") from error
