"""Each request's stay in a queueing system, for pictures of it: when it came, was begun, left, and how that ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
import polars as pl

from sojourn.model.errors import SojournError
from sojourn.model.formatting import counted
from sojourn.timeline.visits import Visits, visits

SERVED, GIVEN_UP, TURNED_AWAY = "served", "given up", "turned away"
OUTCOMES = (SERVED, GIVEN_UP, TURNED_AWAY)
"""How a stay ends: with an answer of the app's; by nginx (504) or the client (499) losing patience; by an answer of 5xx
from a server that never began the work."""

READ = ("header",)
"""Columns of split rows that ``timelines_of_visits`` needs in the frame of its visits, besides the columns that are
always there."""

TIMELINE = {
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
    "service": pl.String(),
    "told": pl.Boolean(),
}
"""Columns of ``request_timelines``. Instants in seconds after the first arrival.

number: from 1, in the order of arrivals. arrival: when nginx turned to the backend. begin, end: from when to when a
worker was held; null where none ever was, or nothing tells. left: when nginx was done with it: from then on whatever a
worker does for it is for nobody. told: whether it is known how long it waited; where it is not, nothing tells if it
waited or was worked on between arrival and left.
"""


WAITED = pl.max_horizontal(
    pl.min_horizontal(pl.col("begin").fill_null(pl.col("left")), "left") - pl.col("arrival"), pl.lit(0.0)
)
"""Waiting time of each of ``request_timelines`` while its client was connected, s; an upper bound if not ``told``."""


@dataclass(frozen=True)
class RequestTimelines:
    """Stays with what is known around them.

    Attributes:
        table: columns of ``TIMELINE``.
        first: the first arrival, the instant 0 of the table.
        workers: backend -> how many workers it has.
    """

    table: pl.DataFrame
    first: datetime
    workers: dict[str | None, int]


def request_timelines(rows: pl.LazyFrame, *, most: int | None = None) -> pl.DataFrame:
    """Stays of split rows (``SplitResult.rows``), columns of ``TIMELINE``, in the order of arrivals.

    Args:
        rows: with spans joined, those given up on have a begin and an end.
        most: so many at most.

    Raises:
        SojournError: no request went to a backend, or more than ``most`` did.
    """
    return timelines_with_workers(rows, most=most).table


def timelines_with_workers(
    rows: pl.LazyFrame, *, workers: int | Mapping[str, int] | None = None, most: int | None = None
) -> RequestTimelines:
    """``request_timelines`` with the instant they begin at and the workers of each backend.

    Args:
        rows: as for ``request_timelines``.
        workers: per backend, or the same for all; None: read off the worker values.
        most: so many at most.

    Raises:
        SojournError: no request went to a backend, or more than ``most`` did.
    """
    found = visits(rows, columns=READ, workers=workers, waits_unknown=True)
    if most is not None and len(found) > most:
        raise SojournError(
            f"{counted(len(found), 'request is', 'requests are')} more than the {most:,} that can be drawn: choose a "
            "window"
        )
    return timelines_of_visits(found)


def timelines_of_visits(found: Visits) -> RequestTimelines:
    """Stays of visits that were made with the columns ``READ``.

    Raises:
        SojournError: there is no visit.
    """
    if not len(found):
        raise SojournError("no request went to a backend, so there is no queue to be drawn")
    from sojourn.timeline.charge import services_of  # noqa: PLC0415 - it brings numba, which the names here need not

    services = services_of(found)
    first = float(found.arrival[0])
    begin = np.where(np.isnan(services.end), np.nan, services.begin)
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
            "end": services.end - first,
            "left": found.ended - first,
            "backend": found.frame["upstream"],
            "worker": found.frame["worker"],
            "route": found.frame["route"],
            "status": found.frame["status"].cast(pl.Int64),
            "service": found.frame["service"],
            "waited": ~np.isnan(found.wait_end),
            "began": ~np.isnan(begin),
        }
    )
    # One that was turned away stood in the line until then, or was not let in at all.
    told = pl.col("waited") | pl.col("began") | (pl.col("outcome") == TURNED_AWAY)
    return RequestTimelines(
        table=table.with_columns(pl.col("begin", "end").fill_nan(None), outcome=outcome)
        .with_columns(told=told)
        .select(pl.col(name).cast(kind) for name, kind in TIMELINE.items()),
        first=found.base + timedelta(seconds=first),
        workers=dict(zip(found.backends, found.workers.count.tolist(), strict=True)),
    )
