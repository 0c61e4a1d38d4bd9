"""The causes of the waits of requests, instant by instant: of a simulation, or by the apps' own logs.

Of every instant of a wait, from the stamp to the app's start, the first of these that applies:

    it is on the way to its backend                                     dispatch
    all workers stand still and one of them is free                     pause
    a limit in front holds it back, and its backend has a free worker   limit
    its process has a free worker                                       dispatch
    another process of the backend has a free worker                    bound
    another backend has a free worker                                   imbalance
    otherwise, in equal parts, what holds the places of its process:    route and phase, "absent", "not in the log"

A worker that its requests have not begun to use is free in this sense: it stands still, or reads an upload (``read``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from sojourn.analyses.blame.analysis import BlameResult

ANSWERED = (101, 200)

DISPATCH, PAUSE, LIMIT, BOUND, IMBALANCE, ABSENT, HIDDEN, READ = (
    "dispatch", "pause", "limit", "bound", "imbalance", "absent", "not in the log", "read",
)  # fmt: skip
HOLDING_PHASES = (READ, "service", "body", "after")  # phases
OTHER_NAMES = {"load_not_in_the_log": HIDDEN, "reserved": BOUND}
"""Accounts of ``sojourn blame`` that have another name here."""


class RequestTimes(Protocol):
    """One request; instants in unix s or s of the simulation.

    Attributes:
        backend, group: the place: a process group of a backend.
        route, status: as in the log.
        hidden: whether it is not in the log.
        before: the worker is held before the app's start, if not 0.
        gated, reached, got_worker, begun, headers, answered, released, freed: when the limit let it pass, it was at the
            backend, a worker took it, the app started, the headers and the answer were made, the worker was released,
            and was ready for the next one.
    """

    backend: int
    group: int
    route: str
    status: int
    hidden: bool
    before: float
    gated: float
    reached: float
    got_worker: float
    begun: float
    headers: float
    answered: float
    released: float
    freed: float

    @property
    def stamp(self) -> float:
        """When nginx turned to the app."""


Life = tuple[int, int, float, float]
"""Backend, group, begin and end of the presence of a worker."""


def accounts_of(
    requests: Sequence[RequestTimes], present: Sequence[Life], pauses: Sequence[tuple[float, float]] = ()
) -> dict[str, float]:
    """Return what was waited for -> its share of the waiting; of holders ``"<route> <phase>"``.

    Args:
        requests: all that held workers; the waits are those of the answered requests of the log.
        present: of the workers.
        pauses: begin and end of times in which all workers stood still.
    """
    places = sorted({(r.backend, r.group) for r in requests} | {life[:2] for life in present})
    instants: set[float] = set()
    for r in requests:
        instants |= {r.stamp, r.gated, r.reached, r.got_worker, r.begun, r.headers, r.answered, r.released, r.freed}
    for begin, end in pauses:
        instants |= {begin, end}
    for _, _, begin, end in present:
        instants |= {begin, end}
    grid = np.array(sorted(instants))
    levels = _Levels(grid)
    for r in requests:
        own = (r.backend, r.group)
        holder = (*own, HIDDEN) if r.hidden else None
        for begin, end, phase in _phases(r):
            levels.add(begin, end, holder or (*own, f"{r.route} {phase}"))
            levels.add(begin, end, (*own, "held"))
        if not r.hidden and r.status in ANSWERED:
            levels.add(r.stamp, r.gated, (r.backend, -1, "gated"))
            levels.add(r.gated, r.reached, (r.backend, -1, DISPATCH))
            levels.add(r.reached, r.begun, (*own, "waiting"))
    for number, place, begin, end in present:
        levels.add(begin, end, (number, place, "present"))
    for begin, end in pauses:
        levels.add(begin, end, (-1, -1, PAUSE))
    seconds = _charged(levels, places, np.diff(grid))
    total = sum(seconds.values())
    return {name: part / total for name, part in seconds.items() if part > 0}


def stated_accounts(blame: BlameResult) -> dict[str, float]:
    """Return what ``sojourn blame`` says: the same names as ``accounts_of`` -> share of the wait."""
    rows = blame.phases.to_dicts() or [{**row, "phase": "service"} for row in blame.culprits.to_dicts()]
    seconds = {f"{row['culprit']} {row['phase']}": row["seconds"] for row in rows} | blame.accounts
    return {OTHER_NAMES.get(name, name): part / blame.waited for name, part in seconds.items()}


def largest_difference(stated: Mapping[str, float], truth: Mapping[str, float]) -> tuple[str, float]:
    """Return the name whose stated share is farthest from the true one, and stated - true; one of them is not empty."""
    off = {name: stated.get(name, 0.0) - truth.get(name, 0.0) for name in {*stated, *truth}}
    worst = max(off, key=lambda name: abs(off[name]))
    return worst, off[worst]


def _phases(r: RequestTimes) -> list[tuple[float, float, str]]:
    before = [(r.got_worker, r.begun, READ)] if r.before else []
    body_end = max(r.headers, min(r.answered, r.released))
    ends = [r.headers, body_end, r.released]
    # What a worker does until it takes the next request belongs to the phase before.
    last = max(place for place in range(3) if place == 0 or ends[place] > ends[place - 1])
    ends[last] = r.freed
    return [*before, (r.begun, ends[0], "service"), (r.headers, ends[1], "body"), (body_end, ends[2], "after")]


class _Levels:
    """The number of intervals that hold, by name, on the pieces between the instants of a grid."""

    def __init__(self, grid: np.ndarray) -> None:
        self._grid = grid
        self._steps: dict[tuple[int, int, str], np.ndarray] = {}

    def add(self, begin: float, end: float, name: tuple[int, int, str]) -> None:
        """Add an interval."""
        if end > begin:
            steps = self._steps.setdefault(name, np.zeros(len(self._grid)))
            steps[np.searchsorted(self._grid, begin)] += 1
            steps[np.searchsorted(self._grid, end)] -= 1

    def of(self, name: tuple[int, int, str]) -> np.ndarray:
        """Return the number on each piece."""
        steps = self._steps.get(name)
        return np.zeros(len(self._grid) - 1) if steps is None else np.cumsum(steps)[:-1]

    def names(self, backend: int, group: int) -> list[str]:
        """Return the names at a place."""
        return [name for number, place, name in self._steps if (number, place) == (backend, group)]


def _charged(levels: _Levels, places: list[tuple[int, int]], lasted: np.ndarray) -> dict[str, float]:
    seconds: dict[str, float] = defaultdict(float)
    paused = levels.of((-1, -1, PAUSE)) > 0
    free = {place: levels.of((*place, "present")) - levels.of((*place, "held")) > 0 for place in places}
    backends = {number: [place for place in places if place[0] == number] for number, _ in places}
    free_at = {number: np.any([free[place] for place in own], axis=0) for number, own in backends.items()}
    anywhere = np.any(list(free_at.values()), axis=0)
    for backend, own in backends.items():
        any_free = free_at[backend]
        seconds[DISPATCH] += float((levels.of((backend, -1, DISPATCH)) * lasted).sum())
        gated = levels.of((backend, -1, "gated")) * lasted
        seconds[LIMIT] += float(gated[any_free].sum())
        for place in own:
            waiting = levels.of((*place, "waiting")) * lasted
            stopped = paused & free[place]
            seconds[PAUSE] += float(waiting[stopped].sum())
            seconds[DISPATCH] += float(waiting[free[place] & ~stopped].sum())
            bound = ~free[place] & any_free
            seconds[BOUND] += float(waiting[bound].sum())
            # Behind a limit all places are held, and those of all groups count alike.
            waiting = waiting + gated / len(own)
            seconds[IMBALANCE] += float(waiting[anywhere & ~any_free].sum())
            _shared(levels, place, np.where(anywhere, 0.0, waiting), seconds)
    return seconds


def _shared(levels: _Levels, place: tuple[int, int], waiting: np.ndarray, seconds: dict[str, float]) -> None:
    """Charge waiting in equal parts to the places of a process: those that are held, and those of absent workers."""
    present, busy = levels.of((*place, "present")), levels.of((*place, "held"))
    absent = present.max(initial=0) - np.maximum(present, busy)
    each = waiting / np.maximum(busy + absent, 1)
    seconds[ABSENT] += float((each * absent).sum())
    for name in levels.names(*place):
        if name not in ("present", "held", "waiting"):
            seconds[name] += float((each * levels.of((*place, name))).sum())
