"""What a log says of the workers of one backend: releases, next starts, order, pauses, and levels of the load."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sojourn.timeline.charge import Services
from sojourn.timeline.classes import classes_of
from sojourn.timeline.turnaround import LONGEST
from sojourn.timeline.visits import Visits

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

FEW = 8  # pieces of evidence
LONG_BODY = 0.03  # s
AT_ONCE = 0.004  # s: a request that starts within it did not wait


@dataclass(frozen=True)
class Evidence:
    """Requests of one backend in the order of their starts; instants in s.

    ``release``: when the worker is free, by headers, bodies that hold it, and turnaround; ``following``: the next start
    in the same worker, inf for none; ``previous``: the request before in the same worker, -1 for none.
    """

    arrival: Floats
    begin: Floats
    headers: Floats
    release: Floats
    following: Floats
    previous: Ints
    worker: Ints
    route: Ints
    routes: tuple[str, ...]
    body_routes: tuple[str, ...]
    abandoned: float

    @cached_property
    def _grid(self) -> Floats:
        return np.unique(np.concatenate([self.arrival, self.begin, self.headers, self.release]))

    @cached_property
    def _cost(self) -> Floats:
        """Waiting seconds of each piece between two instants."""
        return _level(self.arrival, self.begin, self._grid) * np.diff(self._grid)

    @cached_property
    def _busy(self) -> Ints:
        return _level(self.begin, self.release, self._grid)

    @cached_property
    def _present(self) -> Ints:
        """Workers whose name lives: from its first start to its last release."""
        first = np.full(int(self.worker.max()) + 1, np.inf)
        last = np.full(len(first), -np.inf)
        np.minimum.at(first, self.worker, self.begin)
        np.maximum.at(last, self.worker, self.release)
        return _level(first, last, self._grid)

    def _share(self, chosen: Bools) -> float:
        waited = float(self._cost.sum())
        return float(self._cost[chosen].sum()) / waited if waited > 0 else 0.0

    @cached_property
    def workers(self) -> int:
        """Return the most workers present at once."""
        return int(self._present.max())

    @cached_property
    def free_by_headers(self) -> float:
        """Share of the waiting with a worker that looks free if headers end its work."""
        return self._share(_level(self.begin, self.headers, self._grid) < self.workers)

    @cached_property
    def free(self) -> float:
        """Share of the waiting with a present worker that is neither serving nor sending a body that holds it."""
        return self._share(self._busy < self._present)

    @cached_property
    def absent(self) -> float:
        """Share of the waiting with all present workers busy, and some absent."""
        return self._share((self._busy >= self._present) & (self._present < self.workers))

    @cached_property
    def hidden(self) -> float:
        """Share of the workers' time that requests outside the log seem to take, while requests wait."""
        present = float((self._present * self._cost).sum())
        return 1 - float((self._busy * self._cost).sum()) / present if present > 0 else 0.0

    @cached_property
    def limit(self) -> int | None:
        """Number in service at which requests wait nearly always; None if there is no such number below the workers."""
        waited = float(self._cost.sum())
        level = np.bincount(np.minimum(self._busy, self.workers), self._cost, self.workers + 1)
        most = int(level[:-1].argmax()) if self.workers else 0
        constant = waited > 0 and level[most] > 0.9 * waited and level[-1] < 0.05 * waited
        return most if constant and most > 0 else None

    @cached_property
    def _events(self) -> Floats:
        return np.unique(np.concatenate([self.begin, self.headers]))

    @cached_property
    def _long_gaps(self) -> Bools:
        gaps = np.diff(self._events)
        return gaps > max(0.1, 8 * float(np.median(gaps)))

    @property
    def pauses(self) -> int:
        """Return the number of gaps without any event of a worker."""
        return int(self._long_gaps.sum())

    @cached_property
    def paused(self) -> float:
        """Share of the waiting in such gaps while a worker looks free."""
        place = np.searchsorted(self._events, self._grid[:-1], "right") - 1
        inside = (place >= 0) & (place < len(self._long_gaps))
        quiet = inside & self._long_gaps[np.clip(place, 0, len(self._long_gaps) - 1)]
        return self._share(quiet & (self._busy < self._present))

    @cached_property
    def _met(self) -> tuple[Bools, Bools]:
        """Whether an older request still waits when a request arrives, and whether it starts at once; by arrival."""
        order = np.argsort(self.arrival, kind="stable")
        arrival, begin = self.arrival[order], self.begin[order]
        older = np.maximum.accumulate(np.concatenate([[-np.inf], begin[:-1]]))
        met = older > arrival + AT_ONCE
        return met, met & (begin - arrival < AT_ONCE)

    @property
    def met(self) -> int:
        """Return the number of requests that arrived while an older one waited."""
        return int(self._met[0].sum())

    @property
    def overtakes(self) -> float:
        """Share of these that started at once."""
        return float(self._met[1].sum()) / max(self.met, 1)

    @cached_property
    def overtaken_in_new_worker(self) -> float:
        """Share of the overtaken requests that are the first of their worker."""
        at_once = np.sort(self.arrival[self.begin - self.arrival < AT_ONCE])
        overtaken = np.searchsorted(at_once, self.begin - AT_ONCE, "left") > np.searchsorted(
            at_once, self.arrival + AT_ONCE, "right"
        )
        slow = overtaken & (self.begin - self.arrival > 0.02)
        return float((self.previous[slow] < 0).mean()) if slow.any() else 0.0

    @cached_property
    def disorder_in_worker(self) -> float:
        """Share of the requests that arrived before the request that their worker served before."""
        later = np.flatnonzero(self.previous >= 0)
        if not len(later):
            return 0.0
        return float((self.arrival[later] < self.arrival[self.previous[later]] - AT_ONCE).mean())

    @cached_property
    def partitioned(self) -> bool:
        """Whether groups of workers serve disjoint routes."""
        served = np.zeros((int(self.worker.max()) + 1, len(self.routes)))
        np.add.at(served, (self.worker, self.route), 1)
        sets = {tuple(row) for row in served > 0.02 * served.sum(axis=1, keepdims=True)}
        apart = all(not np.logical_and(x, y).any() for x in sets for y in sets if x != y)
        return len(sets) > 1 and apart

    @cached_property
    def after_routes(self) -> tuple[str, ...]:
        """Routes after which a worker remains away although a request waits, while it does not after others."""
        released = np.isfinite(self.following) & (self._late(self.release, 0.0) > 0)
        away = released & (self._late(self.release, LONGEST) > 0) & (self.following > self.release + LONGEST)
        rate, time = {}, {}
        for code, name in enumerate(self.routes):
            own = released & (self.route == code)
            if own.sum() >= FEW:
                gone = away & (self.route == code)
                rate[name] = float(gone.sum() / own.sum())
                time[name] = float((self.following[gone] - self.release[gone]).sum())
        often = [name for name, share in rate.items() if share > 0.15]
        total = sum(time.values())
        if not often or total <= 0:
            return ()
        if len(rate) == 1:
            return tuple(often) if rate[often[0]] > 0.9 else ()
        seldom = any(share < 0.03 for share in rate.values())
        return tuple(often) if seldom and sum(time[name] for name in often) > 0.85 * total else ()

    def _late(self, instants: Floats, seconds: float) -> Ints:
        """Return how many requests wait at each instant and have not started ``seconds`` later."""
        arrivals = np.sort(self.arrival)
        waiting = np.searchsorted(arrivals, instants - 0.002, "right")
        return waiting - np.searchsorted(self.begin, instants + seconds, "right")


def _level(begin: Floats, end: Floats, grid: Floats) -> Ints:
    """Return the number of intervals that hold from each instant of a grid to the next."""
    at = grid[:-1]
    return np.searchsorted(np.sort(begin), at, "right") - np.searchsorted(np.sort(end), at, "right")


def evidence_of(visits: Visits, services: Services, chosen: Ints, way: float, abandoned: float) -> Evidence:
    """Return the evidence of some requests of one backend, which are in the order of their starts.

    Args:
        visits: with the columns route and worker; with ``response``, bodies that hold a worker are recognised.
        services: when each visit held a worker.
        chosen: the requests; the start and the worker of each are known.
        way: time that a request takes to an idle backend, s.
        abandoned: share of the backend's requests that were abandoned.
    """
    begin, headers = visits.busy_start[chosen], visits.busy_end[chosen]
    release = np.fmax(services.end[chosen], headers)
    arrival = np.minimum(visits.arrival[chosen] + way, begin)
    rows = visits.rows_at(chosen)
    worker, names = classes_of(rows["worker"])
    route, labels = classes_of(rows["route"])
    following, previous = np.full(len(chosen), np.inf), np.full(len(chosen), -1)
    order = np.lexsort((begin, worker))
    same = worker[order[1:]] == worker[order[:-1]]
    following[order[:-1][same]] = begin[order[1:][same]]
    previous[order[1:][same]] = order[:-1][same]
    bodies: tuple[str, ...] = ()
    if "response" in rows.columns:
        ended = visits.arrival[chosen] + rows["response"].fill_null(0.0).to_numpy()
        held = _held_bodies(begin, headers, ended, following, worker, route, len(labels), len(names))
        inside = np.isin(route, held) & (ended > release)
        release = np.where(inside, np.minimum(ended, following), release)
        bodies = tuple(labels[code] for code in held)
    return Evidence(
        arrival, begin, headers, release, following, previous, worker, route, tuple(labels), bodies, abandoned
    )


def _held_bodies(
    begin: Floats, headers: Floats, ended: Floats, following: Floats, worker: Ints, route: Ints,
    routes: int, workers: int,
) -> Ints:  # fmt: skip
    """Return the routes during whose bodies a worker starts nothing, although a free one would have."""
    long = (ended - headers > LONG_BODY) & np.isfinite(following)
    rate = np.bincount(worker, minlength=workers) / max(float(begin[-1] - begin[0]), 1e-9)
    held = []
    for code in range(routes):
        own = np.flatnonzero(long & (route == code))
        if len(own) < 3:
            continue
        early = float((following[own] < ended[own] - LONGEST).mean())
        expected = float(((ended[own] - headers[own]) * rate[worker[own]]).sum())
        if early < 0.02 and expected > FEW:
            held.append(code)
    return np.array(held, np.int64)
