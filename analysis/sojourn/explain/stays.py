"""Each request's stay in a queueing system, for pictures of it: when it came, was begun, left, and how that ended."""

from __future__ import annotations

import numpy as np
import polars as pl

from sojourn.errors import SojournError
from sojourn.explain.visits import visits

SERVED, GIVEN_UP, TURNED_AWAY = "served", "given up", "turned away"
OUTCOMES = (SERVED, GIVEN_UP, TURNED_AWAY)
"""How a stay ends: with an answer of the app's; by nginx (504) or the client (499) losing patience; by an answer of 5xx
from a server that never began the work."""

STAY = {
    "number": pl.Int64(),
    "arrival": pl.Float64(),
    "begin": pl.Float64(),
    "end": pl.Float64(),
    "left": pl.Float64(),
    "outcome": pl.Enum(OUTCOMES),
    "backend": pl.String(),
    "worker": pl.String(),
    "route": pl.String(),
    "status": pl.Int64(),
}
"""Columns of ``stays``. Instants in seconds after the first arrival.

number: from 1, in the order of arrivals. arrival: when nginx turned to the backend. begin, end: from when to when a
worker was held; null where none ever was, or nothing tells. left: when nginx was done with it: from then on whatever a
worker does for it is for nobody.
"""


def stays(rows: pl.LazyFrame, *, most: int | None = None) -> pl.DataFrame:
    """Stays of split rows (``SplitResult.rows``), columns of ``STAY``, in the order of arrivals.

    Args:
        rows: with spans joined, those given up on have a begin and an end.
        most: so many at most.

    Raises:
        SojournError: no request went to a backend, or more than ``most`` did.
    """
    found = visits(rows, columns=("time",), waits_unknown=True)
    if not len(found):
        raise SojournError("no request went to a backend, so there is no queue to be drawn")
    if most is not None and len(found) > most:
        raise SojournError(f"{len(found):,} requests are more than the {most:,} that can be drawn: choose a window")
    first = float(found.arrival[0])
    left = (found.frame["time"].dt.epoch("us").to_numpy() - _microseconds(found.base)) / 1e6
    begin = np.where(np.isnan(found.busy_end), np.nan, found.busy_start)
    status = found.frame["status"].cast(pl.Int64)
    began = pl.Series(~np.isnan(begin))
    outcome = (
        pl.when(pl.col("status").is_in([499, 504]))
        .then(pl.lit(GIVEN_UP))
        .when((pl.col("status") >= 500) & ~pl.col("began"))
        .then(pl.lit(TURNED_AWAY))
        .otherwise(pl.lit(SERVED))
    )
    table = pl.DataFrame(
        {
            "number": np.arange(1, len(found) + 1),
            "arrival": found.arrival - first,
            "begin": begin - first,
            "end": found.busy_end - first,
            "left": left - first,
            "backend": found.frame["upstream"],
            "worker": found.frame["worker"],
            "route": found.frame["route"],
            "status": status,
            "began": began,
        }
    )
    return table.with_columns(pl.col("begin", "end").fill_nan(None), outcome=outcome).select(
        pl.col(name).cast(kind) for name, kind in STAY.items()
    )


def _microseconds(instant: object) -> int:
    return int(pl.Series([instant]).dt.epoch("us").item())
