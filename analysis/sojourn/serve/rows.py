"""The requests of a view as rows, and as a Parquet file."""

from __future__ import annotations

import io
import math

import polars as pl

from sojourn.model.errors import SojournError
from sojourn.model.formatting import counted
from sojourn.model.frame import INSTANT
from sojourn.model.instants import of_epoch_us
from sojourn.serve.session import Session
from sojourn.serve.view import View
from sojourn.sources.frame_measures import without_upgraded

MOST = 1_000_000  # requests of a file


def rows_of(session: Session, view: View) -> pl.LazyFrame:
    """Return the rows of a view, with the components of every request."""
    return without_upgraded(session.requests.rows).filter(condition_of(view))


def condition_of(view: View) -> pl.Expr:
    """Return whether a row belongs to a view."""
    area, response = view.area, pl.col("request_time")
    begin, end = (pl.lit(of_epoch_us(each), INSTANT) for each in (area.begin, area.end))
    condition = (pl.col("start") >= begin) & (pl.col("start") < end)
    if area.low > 0:
        condition &= response >= area.low
    if not math.isinf(area.high):
        condition &= response < area.high
    for name, values in view.where.items():
        texts = [value for value in values if value is not None]
        is_value = pl.col(name).cast(pl.String).is_in(texts)
        condition &= (is_value.fill_null(False) | pl.col(name).is_null()) if None in values else is_value
    return condition


def parquet_of(session: Session, view: View) -> bytes:
    """Return the requests of a view as a Parquet file.

    Raises:
        SojournError: they are more than ``MOST``.
    """
    rows = rows_of(session, view).head(MOST + 1).collect(engine="streaming")
    if len(rows) > MOST:
        raise SojournError(f"a file has {counted(MOST, 'request')} at most: zoom in, or run sojourn split --parquet")
    file = io.BytesIO()
    rows.write_parquet(file)
    return file.getvalue()
