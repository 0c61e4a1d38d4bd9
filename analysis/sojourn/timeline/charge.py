"""Run visits through the sweep: all, or selected ones."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from sojourn.model.arrays import Bools, Floats, Ints
from sojourn.model.compilation import is_compilation_installed
from sojourn.model.errors import SojournError
from sojourn.model.extras import missing_package
from sojourn.model.formatting import counted
from sojourn.timeline.named_accounts import BOUND_ACCOUNTS, moved_from_dispatch
from sojourn.timeline.phases import PHASES
from sojourn.timeline.services import Pieces, Services, in_order
from sojourn.timeline.sweep import Swept, accounts_of
from sojourn.timeline.visits import Visits

INTERPRETED = 100_000  # requests; without numba each takes some 20 µs
DISPATCH, IMBALANCE = "dispatch", "imbalance"
CELLS = 4_000_000  # cells of the matrices in memory: 64 MB with the compensation of rounding


class Events(NamedTuple):
    """Requests in the order of an instant: those whose waits count, and those whose services do."""

    arrivals: Ints
    wait_ends: Ints
    begins: Ints
    ends: Ints


class Accounts(NamedTuple):
    """Seconds per request.

    Attributes:
        blamed: of its wait, charged to requests that hold workers.
        caused: that others waited for it.
        in_phase: the same by phase (``PHASES`` × n); None: all in its service.
        others: account -> seconds of its wait: ``dispatch``, ``imbalance``, and those that occur of ``named_accounts``.
            With ``blamed`` they sum to its wait.
    """

    blamed: Floats
    caused: Floats
    in_phase: Floats | None
    others: dict[str, Floats]

    @property
    def dispatch(self) -> Floats:
        """Seconds with a free worker at its own place."""
        return self.others[DISPATCH]

    @property
    def imbalance(self) -> Floats:
        """Seconds with a free worker at another backend of the upstream."""
        return self.others[IMBALANCE]


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
    reached = visits.reached
    arrivals = np.flatnonzero(charged) if reached is visits.arrival else in_order(reached, charged)
    waits = (arrivals, in_order(visits.wait_end, charged))
    events = Events(*waits, services.pieces.by_begin, services.pieces.by_end)
    swept = _swept(visits, services.pieces, events, victim, culprit, window, shape)
    if reached is not visits.arrival:
        swept.dispatch[charged] += (reached - visits.arrival)[charged]
    caused, in_phase = _by_request(services.pieces, swept.caused, len(visits))
    others = {DISPATCH: swept.dispatch, IMBALANCE: swept.imbalance}
    for (account, _), seconds in zip(services.pieces.others, swept.others, strict=True):
        others[account] = seconds
    if visits.is_bound:
        bound = _bound(visits, services.pieces, events, window, swept.imbalance)
        others[IMBALANCE] = swept.imbalance - bound
        reserved = visits.reserved[visits.backend]
        for account, own in zip(BOUND_ACCOUNTS, (~reserved, reserved), strict=True):
            if own.any():
                others[account] = np.where(own, bound, 0.0)
    moved_from_dispatch(visits, others)
    return Accounts(swept.blamed, caused, in_phase, others), swept.matrix


def _bound(visits: Visits, pieces: Pieces, events: Events, window: Ints, imbalance: Floats) -> Floats:
    """Return the seconds of each wait without a free worker in its process, but with one in another of its backend.

    ``imbalance``: the seconds with a free worker in another process or backend.
    """
    places = visits.places
    bound = np.bincount(places.backend, minlength=len(visits.backends)) > 1
    alone = np.bincount(visits.pool, minlength=len(visits.pools))[visits.pool] == 1
    if alone[bound].all():
        return np.where(bound[visits.backend], imbalance, 0.0)
    # Each backend on its own: what remains is another process of it.
    nothing = np.zeros(len(visits), np.int64)
    within = np.where(window >= 0, 0, -1)
    return _swept(visits, pieces, events, nothing, nothing, within, (1, 1, 1), places.backend).imbalance


def _by_request(pieces: Pieces, caused: Floats, count: int) -> tuple[Floats, Floats | None]:
    """Return the seconds that each request caused, and the same by phase; ``caused``: by each of its intervals."""
    if pieces.request is None or pieces.phase is None:
        return caused[:count], None
    in_phase = np.zeros((len(PHASES), count))
    in_phase[pieces.phase, pieces.request] = caused[: len(pieces.request)]
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
        charged = charged[np.argsort(visits.reached[charged], kind="stable")]
        events = _events_around(visits, services.pieces, charged, slot[charged])
        yield first, _swept(visits, services.pieces, events, victim, culprit, slot, (count, victims, culprits)).matrix


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


def _swept(
    visits: Visits, pieces: Pieces, events: Events, victim: Ints, culprit: Ints, window: Ints,
    shape: tuple[int, int, int], pool: Ints | None = None,
) -> Swept:  # fmt: skip
    places, count = visits.places, shape[2]
    swept = accounts_of(
        visits.reached,
        visits.wait_end,
        pieces.begin,
        pieces.end,
        places.code,
        pieces.place,
        events,
        workers=places.workers,
        pool=places.pool if pool is None else pool,
        victim=victim,
        culprit=pieces.classes(culprit, count),
        window=window,
        windows=shape[0],
        victims=shape[1],
        culprits=count + len(pieces.others),
        others=len(pieces.others),
    )
    if not pieces.others:
        return swept
    return swept._replace(blamed=swept.blamed - swept.others.sum(axis=0), matrix=swept.matrix[:, :, :count])
