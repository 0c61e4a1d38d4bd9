"""What a log says of the workers of one backend: releases, next starts, order, pauses, and levels of the load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from sojourn.model.arrays import Bools, Floats, Ints
from sojourn.model.evidence import SHORT_WAY
from sojourn.timeline.blocks import quantile_of_each
from sojourn.timeline.pauses import pauses_of
from sojourn.timeline.turnaround import LONGEST

FEWEST, FEW, MANY = 3, 8, 50  # pieces of evidence
BY_CHANCE = 1e-4  # probability that all workers that stay away do so after a few answers of one route
ALWAYS = 0.97  # share of the releases: load that is not in the log takes a worker less often
SERVES = 0.02  # share of a worker's requests from which on it serves a route
SLOW = 0.02  # s: a wait that may be overtaken
SHORTEST = 0.005  # quantile of the waits at a free worker that is the way there
ENOUGH_FREE = 20  # requests that arrived at a free worker
MOMENT = 0.25  # of the median time that a worker is held: more is no turnaround of a slot
AT_ONCE = 0.004  # s: a request that starts within it did not wait


@dataclass(frozen=True)
class Evidence:
    """Requests of one backend in the order of their starts; instants in s.

    ``headers``: end of the service; ``release``: when the worker is free: spans, bodies that hold it, and turnaround;
    ``inferable``: whether the release may be later, as no span shows it; ``following``: the next start in the same
    worker, inf for none; ``previous``: the request before in the same worker, -1 for none; ``abandoned``: share of the
    backend's requests.
    """

    arrival: Floats
    begin: Floats
    headers: Floats
    release: Floats
    inferable: Bools
    following: Floats
    previous: Ints
    worker: Ints
    route: Ints
    routes: tuple[str, ...]
    abandoned: float

    @cached_property
    def _grid(self) -> Floats:
        return np.unique(np.concatenate([self.arrival, self._late_arrival, self.begin, self.headers, self.release]))

    @cached_property
    def _late_arrival(self) -> Floats:
        """When each request would have started in a free worker, which needs a moment to take it."""
        return np.minimum(self.arrival + LONGEST, self.begin)

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
        return _level(*with_edges(first, last, float((self.release - self.begin).max())), self._grid)

    def _share(self, chosen: Bools) -> float:
        return float(self._cost[chosen].sum()) / self.waited if self.waited > 0 else 0.0

    @cached_property
    def workers(self) -> int:
        """Return the most workers present at once."""
        return int(self._present.max())

    @cached_property
    def free(self) -> float:
        """Share of the waiting with a present worker that nothing known holds, without the moment to take a request."""
        late = _level(self._late_arrival, self.begin, self._grid) * np.diff(self._grid)
        return float(late[self._busy < self._present].sum()) / self.waited if self.waited > 0 else 0.0

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
        if not self.workers or self.waited <= 0:
            return None
        most = int(self._waiting_at(self._busy)[:-1].argmax())
        level = self._waiting_at(self._with_slots(most))
        return most if most > 0 and level[most] > 0.9 * self.waited and level[-1] < 0.05 * self.waited else None

    @cached_property
    def has_edge(self) -> bool:
        """Whether requests often wait at one number in service below the workers, and hardly ever at a higher one.

        So does a limit in front. Load that is not in the log takes another number of workers at each instant.
        """
        level = self._waiting_at(self._busy)
        above = np.cumsum(level[::-1])[::-1][1:]
        own = level[:-1]
        return bool(((own > 0.3 * level.sum()) & (above < 0.1 * own))[1:].any())

    def _waiting_at(self, busy: Ints) -> Floats:
        """Return the seconds of waiting at each number of busy workers."""
        return np.bincount(np.minimum(busy, self.workers), self._cost, self.workers + 1).astype(np.float64)

    def _with_slots(self, number: int) -> Ints:
        """Return the number in service on each piece if ``number`` slots limit it: a slot needs a moment for the next.

        The start of number k + ``number`` takes the slot that the release of number k gave back.
        """
        begin, release = np.sort(self.begin), np.sort(self.release)
        following = np.append(begin[number:], np.full(number, np.inf))
        moment = min(LONGEST, MOMENT * float(np.median(self.release - self.begin)))
        used = (following > release) & (following <= release + moment)
        return _level(begin, np.where(used, following, release), self._grid)

    @cached_property
    def paused(self) -> float:
        """Share of the waiting in pauses while a worker looks free."""
        begin, end = pauses_of(self.arrival, self.begin, self.headers, self.workers)
        place = np.searchsorted(begin, self._grid[:-1], "right") - 1
        quiet = (place >= 0) & (self._grid[:-1] < np.append(end, -np.inf)[place])
        return self._share(quiet & (self._busy < self._present))

    @cached_property
    def _met(self) -> tuple[Bools, Bools]:
        """Whether an older request still waits when a request arrives, and whether it starts at once; by arrival."""
        order = np.argsort(self.arrival, kind="stable")
        arrival, begin = self.arrival[order], self.begin[order]
        older = np.maximum.accumulate(np.concatenate([[-np.inf], begin[:-1]]))
        met = older > arrival + AT_ONCE
        return met, met & (begin - arrival < AT_ONCE)

    @cached_property
    def _slow(self) -> Bools:
        return self.begin - self.arrival > SLOW

    @cached_property
    def _overtaken(self) -> Bools:
        """The slow requests that a later one overtook: it started at once."""
        at_once = np.sort(self.arrival[self.begin - self.arrival < AT_ONCE])
        before = np.searchsorted(at_once, self.begin - AT_ONCE, "left")
        return self._slow & (before > np.searchsorted(at_once, self.arrival + AT_ONCE, "right"))

    @cached_property
    def read_routes(self) -> tuple[str, ...]:
        """Routes of requests that a worker holds before the app's start, as while it reads an upload.

        Later requests overtake them, and no others; and a worker that takes one of them starts it late.
        """
        before = self.previous
        full = (before >= 0) & (self._late(self.release, 0.0)[before] > 0)
        late = full & (self.begin > self.release[before] + LONGEST)
        sums = (self._slow, self._overtaken, full, late)
        waited, passed, releases, away = (np.bincount(self.route[which], minlength=len(self.routes)) for which in sums)
        some = waited >= FEW
        rate, missing = passed / np.maximum(waited, 1), away / np.maximum(releases, 1)
        only, never = some & (rate > 0.15), some & (rate < 0.03)
        if not only.any() or not never.any() or (only | never).sum() < some.sum() or (missing[only] < 0.8).any():
            return ()
        return tuple(self.routes[code] for code in np.flatnonzero(only))

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
        first = self.previous[self._overtaken] < 0
        return float(first.mean()) if len(first) else 0.0

    @cached_property
    def disorder_in_worker(self) -> float:
        """Share of the requests that arrived before the request that their worker served before."""
        later = np.flatnonzero(self.previous >= 0)
        if not len(later):
            return 0.0
        return float((self.arrival[later] < self.arrival[self.previous[later]] - AT_ONCE).mean())

    @cached_property
    def serves(self) -> Bools:
        """Whether each worker serves each route, workers × routes."""
        served = np.zeros((int(self.worker.max()) + 1, len(self.routes)))
        np.add.at(served, (self.worker, self.route), 1)
        return served > SERVES * served.sum(axis=1, keepdims=True)

    @cached_property
    def partitioned(self) -> bool:
        """Whether groups of workers serve disjoint routes."""
        sets = {tuple(row) for row in self.serves}
        apart = all(not np.logical_and(x, y).any() for x in sets for y in sets if x != y)
        return len(sets) > 1 and apart

    @cached_property
    def releases(self) -> Floats:
        """Releases while a request waits, by route (3 × routes): their number, those that take none, and their time, s.

        Only those that no span shows.
        """
        released = self.inferable & np.isfinite(self.following) & (self._late(self.release, 0.0) > 0)
        away = released & (self._late(self.release, LONGEST) > 0) & (self.following > self.release + LONGEST)
        count, gone = (np.bincount(self.route[which], minlength=len(self.routes)) for which in (released, away))
        spent = np.bincount(self.route[away], (self.following - self.release)[away], len(self.routes))
        return np.array([count, gone, spent])

    @property
    def is_alike(self) -> bool:
        """Whether workers that stay away do so mostly after routes of which several releases are seen, if at all.

        After a few answers of a rare route, it may be the route or chance.
        """
        count, gone, _ = self.releases
        return bool(gone[count >= FEW].sum() >= 0.5 * gone.sum())

    @cached_property
    def waited(self) -> float:
        """Seconds of waiting."""
        return float(self._cost.sum())

    def of(self, chosen: Bools) -> Evidence:
        """Return the evidence of some of the requests, all those of their workers."""
        place = np.full(len(chosen) + 1, -1)
        place[:-1][chosen] = np.arange(int(chosen.sum()))
        each = ("arrival", "begin", "headers", "release", "inferable", "following", "worker", "route")
        parts = {name: getattr(self, name)[chosen] for name in each}
        return replace(self, **parts, previous=place[self.previous[chosen]])

    def _late(self, instants: Floats, seconds: float) -> Ints:
        """Return how many requests wait at each instant and have not started ``seconds`` later."""
        arrivals = np.sort(self.arrival)
        waiting = np.searchsorted(arrivals, instants - 0.002, "right")
        return waiting - np.searchsorted(self.begin, instants + seconds, "right")


def way_of(waits: Floats) -> float:
    """Return the way to a backend, s, by waits at a free worker; 0 if it is too short or too seldom seen."""
    waits = waits[~np.isnan(waits)]
    way = float(np.quantile(waits, SHORTEST)) if len(waits) >= ENOUGH_FREE else 0.0
    return way if way > SHORT_WAY else 0.0


def ways_of(backend: Ints, waits: Floats, backends: int) -> Floats:
    """Return ``way_of`` of the waits of each backend, s; ``backend``: of each wait."""
    has_wait = ~np.isnan(waits)
    ways, count = quantile_of_each(backend[has_wait], waits[has_wait], backends, SHORTEST)
    return np.where((count >= ENOUGH_FREE) & (ways > SHORT_WAY), ways, 0.0)


def with_edges(first: Floats, last: Floats, longest: float) -> tuple[Floats, Floats]:
    """Return the lives of workers with the time at the edges of a log in which a request outside it may hold them, s.

    ``longest``: the longest time for which a request holds a worker.
    """
    begin, end = float(first.min()), float(last.max())
    return np.where(first - begin <= longest, begin, first), np.where(end - last <= longest, end, last)


def after_routes(evidences: Sequence[Evidence]) -> tuple[str, ...]:
    """Return the routes after which a worker remains away although a request waits: all, or these unlike others."""
    count, gone, spent = np.sum([each.releases for each in evidences], axis=0)
    routes = evidences[0].routes
    some = np.flatnonzero(count >= FEW)
    rate = gone / np.maximum(count, 1)
    if not len(some) or spent.sum() <= 0:
        return ()
    if (rate[some] > ALWAYS).all() and count.sum() >= MANY:
        return routes
    often = np.flatnonzero((rate > 0.15) & (count >= FEWEST))
    # After a few answers of one route only: this must not be chance.
    if (count[often] < FEW).any() and (count[often].sum() / count.sum()) ** gone[often].sum() > BY_CHANCE:
        often = often[count[often] >= FEW]
    if not len(often) or not (rate[some] < 0.03).any() or spent[often].sum() < 0.85 * spent.sum():
        return ()
    return tuple(routes[code] for code in often)


def free_share(evidences: Sequence[Evidence]) -> float:
    """Return the share of the waiting at all processes of a backend in which one of the own workers looks free."""
    waited = sum(each.waited for each in evidences)
    return sum(each.free * each.waited for each in evidences) / waited if waited > 0 else 0.0


def _level(begin: Floats, end: Floats, grid: Floats) -> Ints:
    """Return the number of intervals that hold from each instant of a grid to the next."""
    at = grid[:-1]
    return np.searchsorted(np.sort(begin), at, "right") - np.searchsorted(np.sort(end), at, "right")
