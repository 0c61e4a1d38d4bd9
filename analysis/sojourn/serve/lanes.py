"""The workers and the waiting requests of a window, lane by lane: each request, or averages if there are many."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from sojourn.model.arrays import Bools, Floats, Ints
from sojourn.model.errors import SojournError
from sojourn.model.formatting import counted
from sojourn.serve.queue import QueueOverTime
from sojourn.serve.view import View
from sojourn.timeline.concurrency import WAITING
from sojourn.timeline.slices import CATEGORIES, Slices, slices_of
from sojourn.timeline.steps import Steps

MOST_REQUESTS = 4_000  # drawn one by one
MOST_AVERAGED = 400_000  # requests whose averages are computed
MOST_WORKERS = 48  # lanes of workers, of the backends at which most requests wait
COLUMNS = 300  # of averages


def lanes_of(queue: QueueOverTime, view: View) -> dict[str, Any]:
    """Return the lanes of a view's window at its backends.

    Returns:
        ``from`` and ``to`` (unix time, us), ``backends`` (those that are drawn, most waiting first), ``left_out``
        (backends that are not), ``lanes`` (name, backend, waiting), ``unplaced`` (requests whose wait has no lane) and
        one of: ``slices``: begin and end (us after ``from``), lane, request and category (index into ``categories``) of
        each slice, with ``requests``: number, arrival (unix time, us), route, status, wait and hold (s) of each; or
        ``averages``: ``width`` (us) and lane -> part of each column in which the worker is held.

    Raises:
        SojournError: there are too many requests.
    """
    first, last = ((each - queue.base) / 1e6 for each in (view.area.begin, view.area.end))
    inside = _inside(queue.intervals, first, last)
    codes = _backends(queue, view, inside, (first, last))
    drawn = inside & np.isin(queue.visits.backend, codes)
    number = int(drawn.sum())
    if number > MOST_AVERAGED:
        raise SojournError(
            f"the window has {counted(number, 'request')}, and {MOST_AVERAGED:,} are drawn at most: zoom in"
        )
    slices = slices_of(queue.visits, queue.services, queue.intervals, drawn, drawn & (number <= MOST_REQUESTS))
    names = queue.visits.backends
    result: dict[str, Any] = {
        "from": view.area.begin,
        "to": view.area.end,
        "backends": [names[code] for code in codes],
        "left_out": len(set(queue.visits.backend[inside].tolist())) - len(codes),
        "lanes": [
            {"name": lane.name, "backend": names[lane.backend], "waiting": lane.waiting} for lane in slices.lanes
        ],
        "unplaced": slices.unplaced,
    }
    begin = view.area.begin - queue.base
    if number <= MOST_REQUESTS:
        return result | {"categories": list(CATEGORIES), **_requests(queue, slices, np.flatnonzero(drawn), begin)}
    return result | {"averages": _averages(slices, begin, view.area.grid(COLUMNS))}


def _inside(intervals: dict[str, tuple[Floats, Floats]], first: float, last: float) -> Bools:
    """Return whether each request was in the system in a window, s."""
    left = np.fmax.reduce([end for _, end in intervals.values()])
    return np.asarray((intervals[WAITING][0] < last) & (left > first))


def _backends(queue: QueueOverTime, view: View, inside: Bools, window: tuple[float, float]) -> list[int]:
    """Return the backends to draw: those of the view, most waiting first, with at most ``MOST_WORKERS`` workers."""
    visits = queue.visits
    begin, end = (np.clip(each, *window) for each in (visits.arrival, visits.wait_end))
    waited = np.bincount(visits.backend, np.where(inside, np.nan_to_num(end - begin), 0.0), len(visits.backends))
    present = np.bincount(visits.backend[inside], minlength=len(visits.backends)) > 0
    allowed = view.where.get("upstream")
    order = [
        code
        for code in np.argsort(-waited, kind="stable").tolist()
        if present[code] and (allowed is None or visits.backends[code] in allowed)
    ]
    workers = np.cumsum([visits.workers.count[code] for code in order])
    return order[: max(int((workers <= MOST_WORKERS).sum()), 1)]


def _requests(queue: QueueOverTime, slices: Slices, drawn: Ints, begin: int) -> dict[str, Any]:
    """Return the slices and their requests; ``begin``: of the window, us after the base of the visits."""
    visits = queue.visits
    rows = visits.rows_at(drawn)
    place = np.full(len(visits), -1, np.int64)
    place[drawn] = np.arange(len(drawn))
    held = (queue.services.end - queue.services.begin)[drawn]
    return {
        "slices": {
            "begin": (slices.begin - begin).tolist(),
            "end": (slices.end - begin).tolist(),
            "lane": slices.lane.tolist(),
            "request": place[slices.request].tolist(),
            "category": slices.category.tolist(),
        },
        "requests": {
            "number": drawn.tolist(),
            "arrival": (queue.base + np.rint(visits.arrival[drawn] * 1e6).astype(np.int64)).tolist(),
            "route": rows["route"].to_list(),
            "status": rows["status"].cast(pl.Int64).to_list(),
            "wait": pl.Series(visits.wait[drawn]).fill_nan(None).to_list(),
            "hold": pl.Series(held).fill_nan(None).to_list(),
        },
    }


def _averages(slices: Slices, begin: int, grid: tuple[int, int]) -> dict[str, Any]:
    """Return the averages; ``begin``: of the window, us after the base of the visits; ``grid``: of ``Area.grid``."""
    width, number = grid
    edges = begin + width * np.arange(number + 1, dtype=np.float64)
    parts = {}
    for lane, about in enumerate(slices.lanes):
        if not about.waiting:
            of_lane = slices.lane == lane
            seconds, _ = Steps.of(slices.begin[of_lane].astype(np.float64), slices.end[of_lane]).between(edges)
            parts[lane] = (seconds / width).tolist()
    return {"width": width, "parts": parts}
