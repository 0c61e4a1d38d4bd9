"""Each request's time in a queueing system, for pictures: arrival, begin of service, departure, outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
import polars as pl

from sojourn.model.components import GIVEN_UP_STATUSES, SERVER_ERROR
from sojourn.model.errors import SojournError
from sojourn.model.formatting import counted
from sojourn.timeline.services import Services, services_of
from sojourn.timeline.visits import Visits, visits

SERVED, GIVEN_UP, TURNED_AWAY = "served", "given up", "turned away"
OUTCOMES = (SERVED, GIVEN_UP, TURNED_AWAY)
"""How a stay ends: with an answer of the app's; by nginx (504) or the client (499) losing patience; by an answer of 5xx
from a server that never began the work."""

OUTCOME = (
    pl.when(pl.col("status").is_in(GIVEN_UP_STATUSES))
    .then(pl.lit(GIVEN_UP))
    .when((pl.col("status") >= SERVER_ERROR) & ~pl.col("began"))
    .then(pl.lit(TURNED_AWAY))
    .otherwise(pl.lit(SERVED))
)
"""The outcome of each request, of its columns ``status`` and ``began`` (whether it held a worker)."""

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
    "wait_known": pl.Boolean(),
}
"""Columns of a table of timelines. Instants in seconds after the first arrival.

number: from 1, in the order of arrivals. arrival: nginx contacts the backend. begin, end: start and end of service;
null if the request was never served, or if they are unknown. left: nginx finishes the request; later service has no
client.
wait_known: whether the wait is known; if not, the request waited or was in service between arrival and left.
"""


WAITED = pl.max_horizontal(
    pl.min_horizontal(pl.col("begin").fill_null(pl.col("left")), "left") - pl.col("arrival"), pl.lit(0.0)
)
"""Waiting time in a table of timelines while the client was connected, s; an upper bound if not ``wait_known``."""


@dataclass(frozen=True)
class RequestTimelines:
    """Request timelines with their context.

    Attributes:
        table: columns of ``TIMELINE``.
        first: the first arrival, the instant 0 of the table.
        workers: backend -> how many workers it has.
    """

    table: pl.DataFrame
    first: datetime
    workers: dict[str | None, int]


def timelines_with_workers(
    rows: pl.LazyFrame, *, workers: int | Mapping[str, int] | None = None, most: int | None = None
) -> RequestTimelines:
    """Return the timelines of split rows (``SplitResult.rows``) in the order of arrivals, with their context.

    Args:
        rows: with spans joined, those given up on have a begin and an end.
        workers: per backend, or the same for all; None: read off the worker values.
        most: maximum number of requests.

    Raises:
        SojournError: no request went to a backend, or more than ``most`` did.
    """
    arrivals = visits(rows, columns=READ, workers=workers, waits_unknown=True)
    if most is not None and len(arrivals) > most:
        raise SojournError(
            f"{counted(len(arrivals), 'request is', 'requests are')} more than the {most:,} that can be drawn: choose "
            "a window"
        )
    return timelines_of_visits(arrivals)


def timelines_of_visits(visits: Visits, services: Services | None = None) -> RequestTimelines:
    """Return the timelines of visits that were read with the columns ``READ``.

    Args:
        visits: the requests.
        services: when each held a worker; None: computed.

    Raises:
        SojournError: there is no visit.
    """
    if not len(visits):
        raise SojournError("no request went to a backend, so there is no queue to be drawn")
    services = services_of(visits) if services is None else services
    first = float(visits.arrival[0])
    begin = np.where(np.isnan(services.end), np.nan, services.begin)
    table = pl.DataFrame(
        {
            "number": np.arange(1, len(visits) + 1),
            "arrival": visits.arrival - first,
            "begin": begin - first,
            "end": services.end - first,
            "left": visits.ended - first,
            "backend": visits.rows["upstream"],
            "worker": visits.rows["worker"],
            "route": visits.rows["route"],
            "status": visits.rows["status"].cast(pl.Int64),
            "service": visits.rows["service"],
            "waited": ~np.isnan(visits.wait_end),
            "began": ~np.isnan(begin),
        }
    )
    # One that was turned away stood in the line until then, or was not let in at all.
    wait_known = pl.col("waited") | pl.col("began") | (pl.col("outcome") == TURNED_AWAY)
    return RequestTimelines(
        table=table.with_columns(pl.col("begin", "end").fill_nan(None), outcome=OUTCOME)
        .with_columns(wait_known=wait_known)
        .select(pl.col(name).cast(kind) for name, kind in TIMELINE.items()),
        first=visits.base + timedelta(seconds=first),
        workers=dict(zip(visits.backends, visits.workers.count.tolist(), strict=True)),
    )
