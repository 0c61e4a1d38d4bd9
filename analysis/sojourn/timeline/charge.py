"""Run visits through the sweep: all, or selected ones."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from sojourn.model.compilation import is_compilation_installed
from sojourn.model.errors import SojournError
from sojourn.model.extras import missing_package
from sojourn.model.formatting import counted
from sojourn.timeline.phases import PHASES
from sojourn.timeline.turnaround import TICK, ends_with_turnaround
from sojourn.timeline.visits import Visits

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

INTERPRETED = 100_000  # requests; without numba each takes some 20 µs
CELLS = 4_000_000  # cells of the matrices in memory: 64 MB with the compensation of rounding


@dataclass(frozen=True)
class Pieces:
    """Intervals (s) in which requests hold a worker, each in one phase; a request has one or several.

    Attributes:
        begin, end: s; NaN: unknown.
        request: index of the request of each; phase: index into ``PHASES``. None: one each, all of it service.
    """

    begin: Floats
    end: Floats
    request: Ints | None = None
    phase: Ints | None = None

    @cached_property
    def by_begin(self) -> Ints:
        """The intervals that are known and have a length, by their begin."""
        return _sorted(self.begin, self.end > self.begin)

    @cached_property
    def by_end(self) -> Ints:
        """The same by their end."""
        return _sorted(self.end, self.end > self.begin)

    def of_requests(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the value of the request of each interval."""
        return values if self.request is None else values[self.request]


@dataclass(frozen=True)
class Services:
    """When each request held a worker (s; NaN: unknown), and whether its service time is known.

    ``pieces``: the same by phases.
    """

    begin: Floats
    end: Floats
    known: Bools
    pieces: Pieces


class Events(NamedTuple):
    """Requests in the order of an instant: those whose waits count, and those whose services do."""

    arrivals: Ints
    wait_ends: Ints
    begins: Ints
    ends: Ints


class Accounts(NamedTuple):
    """Seconds per request; the first three sum to its wait.

    ``caused``: that others waited for it. ``in_phase``: the same by phase (``PHASES`` × n); None: all in its service.
    """

    dispatch: Floats
    imbalance: Floats
    blamed: Floats
    caused: Floats
    in_phase: Floats | None = None


def services_of(visits: Visits) -> Services:
    """Return when each visit held a worker.

    A request without a service time held a worker at least until its answer began: from the end of its wait to
    ``header``, if that column was read. A worker is held until it starts a request that waits, if that takes no longer
    than ``turnaround.LONGEST``.
    """
    begin, end = visits.busy_start.copy(), visits.busy_end.copy()
    known = ~np.isnan(end)
    if "header" in visits.rows.columns:
        answered = visits.arrival + visits.rows["header"].cast(pl.Float64).fill_null(float("nan")).to_numpy()
        guessed = ~known & (answered > visits.wait_end)
        begin[guessed], end[guessed] = visits.wait_end[guessed], answered[guessed]
    whole = Pieces(begin, end)
    orders = whole.by_begin, whole.by_end
    longer = ends_with_turnaround(visits.arrival, begin, end, visits.backend.astype(np.int64), *orders)
    pieces = _pieces(visits, begin, longer)
    if pieces.request is None:
        vars(pieces)["by_begin"] = whole.by_begin  # the same intervals, and their begins do not change
    return Services(begin, longer, known, pieces)


def _pieces(visits: Visits, begin: Floats, end: Floats) -> Pieces:
    """Return the intervals from ``begin`` to ``end`` by phases; one shorter than ``TICK`` is part of that before it."""
    if visits.phases is None:
        return Pieces(begin, end)
    headers, body_end = visits.phases.headers, visits.phases.body_end
    body = np.flatnonzero(body_end - headers > TICK)
    after = np.flatnonzero(visits.busy_end - body_end > TICK)
    if not len(body) and not len(after):
        return Pieces(begin, end)
    service_end, until = end.copy(), end.copy()
    until[after] = body_end[after]
    service_end[after] = headers[after]
    service_end[body] = headers[body]
    # Without a body of its own, the time after the answer begins at the headers.
    starts = np.where(body_end - headers > TICK, body_end, headers)[after]
    every = np.arange(len(begin))
    return Pieces(
        np.concatenate([begin, headers[body], starts]),
        np.concatenate([service_end, until[body], end[after]]),
        np.concatenate([every, body, after]),
        np.repeat(np.arange(len(PHASES)), [len(begin), len(body), len(after)]),
    )


def refuse_too_many(visits: Visits) -> None:
    """Refuse visits that take longer than some seconds without compiled code.

    Raises:
        SojournError: numba is not installed, and there are more than ``INTERPRETED``.
    """
    if len(visits) > INTERPRETED and not is_compilation_installed():
        raise SojournError(missing_package("numba", f"the blame of {counted(len(visits), 'request')}"))


def accounts(visits: Visits, services: Services, victims: Bools | None = None) -> Accounts:
    """Charge the wait of every request to dispatch, imbalance, or the requests in service.

    Args:
        visits: the visits.
        services: when each of them held a worker.
        victims: the requests whose waits count; None: all. The other waits are 0.
    """
    nothing = np.zeros(len(visits), np.int64)
    window = nothing if victims is None else np.where(victims, 0, -1)
    return accounts_and_matrices(visits, services, nothing, nothing, window, (1, 1, 1))[0]


def fit_at_once(shape: tuple[int, int, int]) -> bool:
    """Return whether the matrices of all windows fit in memory at once; ``shape`` as of ``matrices``."""
    return math.prod(shape) <= CELLS


def accounts_and_matrices(
    visits: Visits, services: Services, victim: Ints, culprit: Ints, window: Ints, shape: tuple[int, int, int]
) -> tuple[Accounts, Floats]:
    """Return ``accounts`` of the waits with a window, and all ``matrices`` at once; arguments as there."""
    charged = (visits.wait_end >= visits.arrival) & (window >= 0)
    reached = _reached(visits)
    arrivals = np.flatnonzero(charged) if reached is visits.arrival else _sorted(reached, charged)
    waits = (arrivals, _sorted(visits.wait_end, charged))
    events = Events(*waits, services.pieces.by_begin, services.pieces.by_end)
    dispatch, imbalance, blamed, by_piece, matrix = _swept(
        visits, services.pieces, events, victim, culprit, window, shape
    )
    if reached is not visits.arrival:
        dispatch += np.where(charged, reached - visits.arrival, 0.0)
    caused, in_phase = _by_request(services.pieces, by_piece, len(visits))
    return Accounts(dispatch, imbalance, blamed, caused, in_phase), matrix


def _reached(visits: Visits) -> Floats:
    """Return when each request reached its backend, s: after the way there, if it is long; at most when it started."""
    ways = np.zeros(len(visits.backends))
    for code, holds in (visits.phases.backends if visits.phases is not None else {}).items():
        ways[code] = holds.way
    if not ways.any():
        return visits.arrival
    return np.maximum(np.fmin(visits.arrival + ways[visits.backend], visits.wait_end), visits.arrival)


def _by_request(pieces: Pieces, caused: Floats, count: int) -> tuple[Floats, Floats | None]:
    """Return the seconds that each request caused, and the same by phase; ``caused``: by each of its intervals."""
    if pieces.request is None or pieces.phase is None:
        return caused, None
    in_phase = np.zeros((len(PHASES), count))
    in_phase[pieces.phase, pieces.request] = caused
    return in_phase.sum(axis=0), in_phase


def matrices(
    visits: Visits, services: Services, victim: Ints, culprit: Ints, window: Ints, shape: tuple[int, int, int]
) -> Iterator[tuple[int, Floats]]:
    """Yield the blamed seconds, windows × victims × culprits, some windows at a time.

    Args:
        visits: the visits.
        services: when each of them held a worker.
        victim: class of each request as a victim.
        culprit: class of each request as a culprit.
        window: the window that the wait of each request counts in; -1: none.
        shape: number of windows, victims and culprits.

    Yields:
        The first window, and the matrices from it on.
    """
    windows, victims, culprits = shape
    if not victims or not culprits:
        return
    at_once = max(CELLS // (victims * culprits), 1)
    for first in range(0, windows, at_once):
        count = min(at_once, windows - first)
        slot = np.where((window >= first) & (window < first + count), window - first, -1)
        charged = np.flatnonzero((slot >= 0) & (visits.wait_end >= visits.arrival))
        if not len(charged):
            continue
        charged = charged[np.argsort(_reached(visits)[charged], kind="stable")]
        events = _events_around(visits, services.pieces, charged, slot[charged])
        yield first, _swept(visits, services.pieces, events, victim, culprit, slot, (count, victims, culprits))[-1]


def _events_around(visits: Visits, pieces: Pieces, charged: Ints, window: Ints) -> Events:
    """Return the waits that are charged, and at least the services during one of them; ``window``: of each wait."""
    wait_end = visits.wait_end[charged]
    by_end = charged[np.argsort(wait_end, kind="stable")]
    begins, ends = pieces.by_begin, pieces.by_end
    count = int(window.max()) + 1
    first, last = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(first, window, visits.arrival[charged])
    np.maximum.at(last, window, wait_end)
    some = last >= first
    longest = float((pieces.end[begins] - pieces.begin[begins]).max(initial=0.0))
    begun = pieces.begin[begins]
    bounds = np.searchsorted(begun, np.append(first[some] - longest, last[some])).reshape(2, -1)
    # +1 where a window's services begin and -1 where they end: they matter where the sum is positive.
    steps = np.bincount(bounds[0], minlength=len(begins) + 1) - np.bincount(bounds[1], minlength=len(begins) + 1)
    during = np.cumsum(steps[:-1]) > 0
    if not during.all():
        matter = np.zeros(len(pieces.begin), np.bool_)
        matter[begins[during]] = True
        begins, ends = begins[during], ends[matter[ends]]
    return Events(charged, by_end, begins, ends)


def _sorted(instants: Floats, chosen: Bools) -> Ints:
    """Return the chosen requests by an instant; those of one instant in their own order."""
    places = np.flatnonzero(chosen)
    return places[np.argsort(instants[places], kind="stable")]


def _swept(
    visits: Visits, pieces: Pieces, events: Events, victim: Ints, culprit: Ints, window: Ints,
    shape: tuple[int, int, int],
) -> tuple[Floats, Floats, Floats, Floats, Floats]:  # fmt: skip
    from sojourn.timeline.sweep import accounts_of  # noqa: PLC0415 - numba takes its time to load

    return accounts_of(
        _reached(visits),
        visits.wait_end,
        pieces.begin,
        pieces.end,
        pieces.of_requests(visits.backend.astype(np.int64)),
        events,
        workers=visits.workers.count.astype(np.int64),
        pool=visits.pool.astype(np.int64),
        victim=victim,
        culprit=pieces.of_requests(culprit),
        window=window,
        windows=shape[0],
        victims=shape[1],
        culprits=shape[2],
    )
