"""When requests wait and hold workers, and response times by the number of requests at the backend on arrival."""

from __future__ import annotations

import numpy as np
import polars as pl

from sojourn.model.arrays import Floats, Ints
from sojourn.model.measures import LogBins
from sojourn.model.parallel import in_threads
from sojourn.sources.frame_bins import bin_of, binned_sums
from sojourn.timeline.blocks import comparable
from sojourn.timeline.services import Services, services_of
from sojourn.timeline.visits import Visits

COLUMNS = ("request_time", "queueing_delay", "service_time")
"""Needed in the frame of the visits."""

WAITING, GONE, IN_SERVICE = "waiting", "gone", "in_service"
MICROSECOND = 1e-6  # s: instants nearer than this are one

SCHEMA = {
    "group": pl.String(),
    "bin": pl.Int32(),
    "requests": pl.Int64(),
    "total": pl.Float64(),
    "queueing delay": pl.Float64(),
    "service time": pl.Float64(),
}


def bins_by_concurrency(visits: Visits, bins: LogBins) -> pl.DataFrame:
    """Count requests by response time and by the requests at the backend, waiting or in service, on arrival.

    Columns as of ``sojourn.model.measures.Measures.bins_by``, the group being 0, 1, 2–3, 4–7, 8–15 and so on, the
    fewest first.
    """
    if not len(visits):
        return pl.DataFrame(schema=SCHEMA)
    services = services_of(visits)
    waiting, serving = counts_on_arrival(visits, queue_ends(visits, services), services)
    present = np.maximum(waiting + serving, 0)
    # 0, 1, 2–3, 4–7: as many as there are binary digits.
    rank = np.ceil(np.log2(present + 1)).astype(np.int64)
    lows = [0 if k == 0 else 1 << (k - 1) for k in range(int(rank.max()) + 1)]
    names = [f"{low}" if low < 2 else f"{low}–{2 * low - 1}" for low in lows]
    return (
        pl.DataFrame([visits.rows[name] for name in COLUMNS])
        .with_columns(rank=pl.Series(rank))
        .group_by("rank", bin_of("request_time", bins))
        .agg(*binned_sums())
        .sort("rank", "bin")
        .with_columns(group=pl.col("rank").replace_strict(range(len(names)), names, return_dtype=pl.String))
        .select(list(SCHEMA))
    )


def intervals_of(visits: Visits, services: Services) -> dict[str, tuple[Floats, Floats]]:
    """Return begin and end (s, n each) of the parts of each visit: waiting, gone and in service.

    ``gone``: abandoned, and not yet taken by the app: the request is still ahead of others in the queue. A part that
    does not occur has no length, or an unknown end.
    """
    late = services.begin > visits.wait_end + MICROSECOND
    starts = np.where(late, services.begin, visits.wait_end)
    left = np.where(visits.occupied < visits.busy_start, np.minimum(visits.wait_end, visits.occupied), visits.wait_end)
    return {
        WAITING: (visits.arrival, left),
        GONE: (visits.wait_end, starts),
        IN_SERVICE: (services.begin, services.end),
    }


def queue_ends(visits: Visits, services: Services) -> Floats:
    """Return when each visit left the queue, s: when a worker took it, if that is later than the end of its wait."""
    ends = np.where(services.begin > visits.wait_end, services.begin, visits.wait_end)
    # A request that its worker reads has left the queue.
    return np.where(visits.occupied < visits.busy_start, np.minimum(ends, visits.occupied), ends)


def counts_on_arrival(visits: Visits, left: Floats, services: Services, first: int | None = None) -> tuple[Ints, Ints]:
    """Return per request how many waited (abandoned or not) and were in service at its backend on arrival.

    ``left``: when each left the queue, s. ``first``: only so many requests of each backend; the others get 0.
    """
    waiting, serving = np.zeros(len(visits), np.int64), np.zeros(len(visits), np.int64)
    begin, end = services.begin, services.end

    def count(members: Ints) -> None:
        arrival, gone, starts, ends = (each[members] for each in (visits.arrival, left, begin, end))
        sound, held = gone >= arrival, ends > starts
        now, leave, begun, free = comparable(visits.backend[members], arrival, gone, starts, ends)
        # Arrivals of one instant (nginx's clock ticks in milliseconds) come in the order of the visits.
        before: Ints = np.cumsum(sound) - sound
        waiting[members] = before - np.searchsorted(np.sort(leave[sound], kind="stable"), now, "right")
        # A request that a worker took at the instant of its arrival, before this one, has left the queue.
        waiting[members] += sound & (gone <= arrival)
        begun, free = (np.sort(instants[held], kind="stable") for instants in (begun, free))
        serving[members] = np.searchsorted(begun, now, "right") - np.searchsorted(free, now, "right")
        serving[members] -= held & (starts <= arrival) & (ends > arrival)

    in_threads(count, visits.blocks.rows(first))
    return np.maximum(waiting, 0), serving
