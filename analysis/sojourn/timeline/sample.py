"""Some requests of a log, placed in time, where all of a long log are not looked at: those of its busiest stretch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import polars as pl

from sojourn.sources.open_requests import OpenedRequests
from sojourn.timeline.visit_arrays import Visits
from sojourn.timeline.visits import visits
from sojourn.timeline.visits_of import visits_of

STRETCH = 50_000  # requests
FEW = 2 * STRETCH  # requests: up to so many, all are looked at
_ROW = "__row"
_COLUMNS = ("request_time",)


@dataclass(frozen=True)
class Sample:
    """Some requests of a log.

    Attributes:
        visits: they.
        whole: whether they are all.
        columns: as of ``visits``.
    """

    visits: Visits
    whole: bool
    columns: Sequence[str]


def sampled(rows: pl.LazyFrame, columns: Sequence[str] = ()) -> Sample:
    """Return the visits of the stretch with the most service time: about ``STRETCH`` split rows, at most ``FEW``.

    Of up to ``FEW`` rows, it is all of them. ``columns``: as of ``visits``.
    """
    begun = pl.col("start")
    ends = rows.select(pl.len(), begun.min(), begun.max().alias("last")).collect(engine="streaming")
    number, first, last = ends.row(0)
    if number <= FEW:
        return Sample(visits(rows, columns=columns), True, columns)
    width = max((last - first) // (number // STRETCH), timedelta(microseconds=1))
    place = ((begun - first).dt.total_microseconds() // (width // timedelta(microseconds=1))).alias("place")
    row = pl.col(_ROW)
    parts = rows.with_row_index(_ROW).group_by(place).agg(pl.col("service_time").sum(), row.min(), last=row.max())
    busiest = parts.sort("service_time", "place", descending=[True, False]).collect(engine="streaming")
    place_of, _, first_row, last_row = busiest.row(0)
    begin = first + place_of * width
    # A log is nearly in the order of time: most rows need not be looked at again.
    near = rows.slice(first_row, last_row - first_row + 1)
    stretch = near.filter((begun >= begin) & (begun < begin + width)).head(FEW).collect(engine="streaming")
    return Sample(visits(stretch.lazy(), columns=columns), False, columns)


def sample_of(requests: OpenedRequests, *, upgraded: bool) -> Sample:
    """Return a sample of requests, computed once; ``upgraded``: whether upgraded connections may be in it."""
    overall = requests.once("overall", requests.measures.overall)
    leaves_out = bool(overall["upgraded"]) and not upgraded

    def make() -> Sample:
        if leaves_out:
            return sampled(requests.served, _COLUMNS)
        if overall["requests"] > FEW:
            return sampled(requests.rows, _COLUMNS)
        return Sample(visits_of(requests, columns=_COLUMNS), True, _COLUMNS)

    return requests.once(("sample", leaves_out), make)
