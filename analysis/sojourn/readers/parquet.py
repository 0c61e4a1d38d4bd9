"""Parquet files written by ``sojourn split --parquet``."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from sojourn.errors import SojournError
from sojourn.frame import checked


def read_parquet(path: Path) -> pl.LazyFrame:
    """A frame written by ``sojourn split --parquet`` (columns the split added are made anew, not trusted)."""
    try:
        return checked(pl.scan_parquet(path), str(path))
    except (OSError, pl.exceptions.PolarsError) as error:
        raise SojournError(f"{path}: not a readable Parquet file ({str(error).splitlines()[0]})") from error
