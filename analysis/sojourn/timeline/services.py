"""When each request holds a worker, and what else holds places: intervals with the account that they are charged to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sojourn.model.arrays import Bools, Floats, Ints
from sojourn.timeline.held_places import absences, unseen
from sojourn.timeline.phases import PHASES
from sojourn.timeline.suspicions import ABSENT, HIDDEN
from sojourn.timeline.turnaround import TICK, ends_with_turnaround
from sojourn.timeline.visit_arrays import Visits


def in_order(instants: Floats, chosen: Bools) -> Ints:
    """Return the chosen intervals by an instant; those of one instant in their own order."""
    places = np.flatnonzero(chosen)
    return places[np.argsort(instants[places], kind="stable")]


@dataclass(frozen=True)
class Pieces:
    """Intervals (s) in which places of workers are held: by requests, one or several each, and then by other things.

    Attributes:
        begin, end: s; NaN: unknown.
        place: of each, as of ``Visits.places``.
        request: index of the request of each; None: one each.
        phase: index into ``PHASES`` of each; None: all of it is service.
        others: account -> number of intervals that something else holds; they come last, in this order.
    """

    begin: Floats
    end: Floats
    place: Ints
    request: Ints | None = None
    phase: Ints | None = None
    others: tuple[tuple[str, int], ...] = ()

    @cached_property
    def by_begin(self) -> Ints:
        """The intervals that are known and have a length, by their begin."""
        return in_order(self.begin, self.end > self.begin)

    @cached_property
    def by_end(self) -> Ints:
        """The same by their end."""
        return in_order(self.end, self.end > self.begin)

    def of_requests(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the value of the request of each interval that a request holds."""
        return values if self.request is None else values[self.request]

    def classes(self, values: Ints, count: int) -> Ints:
        """Return the class of each interval: of its request, or ``count`` and more for what else holds it."""
        if not self.others:
            return self.of_requests(values)
        numbers = [np.full(number, count + place) for place, (_, number) in enumerate(self.others)]
        return np.concatenate([self.of_requests(values), *numbers])


@dataclass(frozen=True)
class Services:
    """When each request held a worker (s; NaN: unknown), and whether its service time is known.

    ``pieces``: the same by phases.
    """

    begin: Floats
    end: Floats
    known: Bools
    pieces: Pieces


def services_of(visits: Visits) -> Services:
    """Return when each visit held a worker.

    A request without a service time held a worker at least until its answer began: from the end of its wait to
    ``header``, if that column was read. A worker is held until it starts a request that waits, if that takes no longer
    than ``turnaround.LONGEST``.
    """
    begin, end = visits.occupied.copy(), visits.busy_end.copy()
    has_service = ~np.isnan(end)
    if "header" in visits.rows.columns:
        answered = visits.arrival + visits.rows["header"].cast(pl.Float64).fill_null(float("nan")).to_numpy()
        guessed = ~has_service & (answered > visits.wait_end)
        begin[guessed], end[guessed] = visits.wait_end[guessed], answered[guessed]
    places = visits.places
    whole = Pieces(begin, end, places.code)
    orders = whole.by_begin, whole.by_end
    longer = ends_with_turnaround(visits.arrival, begin, end, places.code, *orders)
    pieces = _with_others(visits, _pieces(visits, begin, longer))
    if len(pieces.begin) == len(begin):
        vars(pieces)["by_begin"] = whole.by_begin  # the same intervals, and their begins do not change
    return Services(begin, longer, has_service, pieces)


def _pieces(visits: Visits, begin: Floats, end: Floats) -> Pieces:
    """Return the intervals from ``begin`` to ``end`` by phases; one shorter than ``TICK`` is part of that before it."""
    if visits.phases is None:
        return Pieces(begin, end, visits.places.code)
    headers, body_end = visits.phases.headers, visits.phases.body_end
    body = np.flatnonzero(body_end - headers > TICK)
    after = np.flatnonzero(visits.busy_end - body_end > TICK)
    read = np.flatnonzero(visits.busy_start - visits.occupied > TICK)
    if not len(body) and not len(after) and not len(read):
        return Pieces(begin, end, visits.places.code)
    service_begin, service_end, until = begin.copy(), end.copy(), end.copy()
    until[after] = body_end[after]
    service_end[after] = headers[after]
    service_end[body] = headers[body]
    service_begin[read] = visits.busy_start[read]
    # Without a body of its own, the time after the answer begins at the headers.
    starts = np.where(body_end - headers > TICK, body_end, headers)[after]
    request = np.concatenate([np.arange(len(begin)), body, after, read])
    return Pieces(
        np.concatenate([service_begin, headers[body], starts, begin[read]]),
        np.concatenate([service_end, until[body], end[after], visits.busy_start[read]]),
        visits.places.code[request],
        request,
        np.repeat(np.arange(len(PHASES)), [len(begin), len(body), len(after), len(read)]),
    )


def _with_others(visits: Visits, pieces: Pieces) -> Pieces:
    """Return the intervals, with those of absent workers and of load that is not in the log where these are evident."""
    for account, intervals in ((ABSENT, absences), (HIDDEN, unseen)):
        codes = visits.with_suspect(account)
        if not codes:
            continue
        begin, end, place = intervals(visits, codes, (pieces.begin, pieces.end, pieces.place))
        pieces = replace(
            pieces,
            begin=np.concatenate([pieces.begin, begin]),
            end=np.concatenate([pieces.end, end]),
            place=np.concatenate([pieces.place, place]),
            others=(*pieces.others, (account, len(begin))),
        )
    return pieces
