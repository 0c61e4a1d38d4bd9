"""The truth of a simulated system: what its requests waited for, and what a change does."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from sojourn.model.components import SWITCHING_PROTOCOLS
from sojourn_lab.results.waits_by_cause import ANSWERED, HOLDING_PHASES, accounts_of

from systems.requests import AS_IT_IS, Change, Request
from systems.site import Site

NOT_LOGGED = "(not in the log)"
SEARCHED = 4  # times the present number of workers, and 40 more: beyond this no number is enough


@dataclass(frozen=True)
class Served:
    """A system after its simulation.

    Attributes:
        requests: all of them, the hidden ones, too.
        workers: number of workers.
        presence: seconds for which workers were present, all together.
        busy: worker seconds held; None: from the requests.
        limit: of the requests under way, in front of the workers.
        pauses: times in which all workers stand still.
        present: backend, group, begin and end of each worker's presence.
    """

    requests: Sequence[Request]
    workers: int
    presence: float
    busy: float | None = None
    limit: int | None = None
    pauses: Sequence[tuple[float, float]] = ()
    present: Sequence[tuple[int, int, float, float]] = ()

    @classmethod
    def by(cls, site: Site, *, busy: float | None = None) -> Served:
        """Return what a site served; ``busy`` are seconds of its event loops, if its workers are loops."""
        if busy is None:
            return cls(
                site.requests, site.workers, site.presence, limit=site.setup.limit, pauses=site.setup.pauses,
                present=site.lives(),
            )  # fmt: skip
        return cls(site.requests, site.workers, site.workers * max(r.end for r in site.requests), busy)

    @cached_property
    def logged(self) -> list[Request]:
        """The requests that are in the log."""
        return [request for request in self.requests if not request.hidden]


Simulation = Callable[[Change], Served]


@dataclass(frozen=True)
class Facts:
    """What the simulation itself does not say.

    Attributes:
        words: the truth in a few words.
        workers: whether a number of workers means something; without it every number of workers needed is wrong.
        excluded: causes that the verdict must not name.
        utilisation: whether a utilisation of workers exists.
        spans: where the app's spans end, released or headers; empty: there are none.
        apart: what requests wait for and can be changed: processes, limit, absences, places (inside the app), or "".
        ordered: another order than that of arrival: more or fewer workers do not explain the waits.
    """

    words: str
    workers: bool = True
    excluded: frozenset[str] = frozenset()
    utilisation: bool = True
    spans: str = ""
    apart: str = ""
    ordered: bool = False


@dataclass
class Truth:
    """The truth of one kind; changed systems are simulated on demand."""

    simulation: Simulation
    facts: Facts
    _served: dict[tuple[object, ...], Served] = field(default_factory=dict)

    def served(self, change: Change = AS_IT_IS) -> Served:
        """Return the system with a change."""
        key = (
            change.workers,
            change.total,
            tuple(change.scale.items()),
            change.one_queue,
            change.limit,
            change.never_absent,
            change.cores,
            change.dependency,
        )
        if key not in self._served:
            self._served[key] = self.simulation(change)
        return self._served[key]

    @cached_property
    def utilisation(self) -> float | None:
        """Share of the present worker seconds in which a worker was held; None: it does not exist."""
        served = self.served()
        if not self.facts.utilisation:
            return None
        worker_seconds = sum(r.released - r.got_worker for r in served.requests)
        return (worker_seconds if served.busy is None else served.busy) / served.presence

    @cached_property
    def queued(self) -> float:
        """Mean time that an answered request of the log waited for a worker or a limit, s."""
        return float(np.mean([r.queued for r in self.served().logged if r.status in ANSWERED]))

    @cached_property
    def waited(self) -> float:
        """Mean time that an answered request of the log waited for anything but the way to its backend, s."""
        return self.queued + float(np.mean([r.inner for r in self.served().logged if r.status in ANSWERED]))

    @cached_property
    def said_wait(self) -> float:
        """Mean time from the stamp to the app's start, s: what the log calls a wait."""
        return float(np.mean([r.begun - r.stamp for r in self.served().logged if r.status in ANSWERED]))

    @cached_property
    def blame(self) -> dict[str, float]:
        """Share of the waiting by the route of the requests that held what was waited for; the sum is 1 or less."""
        waits: dict[object, list[tuple[float, float]]] = defaultdict(list)
        holds: dict[object, list[tuple[float, float, str]]] = defaultdict(list)
        for r in self.served().requests:
            route = NOT_LOGGED if r.hidden else r.route
            holds["limit"].append((r.gated, r.end - r.send, route))
            holds[r.backend, r.group].append((r.got_worker, r.released, route))
            if not r.hidden:
                waits["limit"].append((r.stamp, r.gated))
                waits[r.backend, r.group].append((r.reached, r.got_worker))
        seconds: dict[str, float] = defaultdict(float)
        for place, waiting in waits.items():
            charge(waiting, holds[place], seconds)
        total = sum(seconds.values())
        return {route: part / total for route, part in seconds.items() if part > 0} if total > 0 else {}

    @cached_property
    def accounts(self) -> dict[str, float]:
        """Share of the wait until the app's start by what it was for; empty where an event loop is waited for."""
        served = self.served()
        if served.busy is not None or not served.present:
            return {}
        return accounts_of(served.requests, served.present, served.pauses)

    @cached_property
    def culprits(self) -> dict[str, float]:
        """Share by route of the waiting that requests cause by holding workers."""
        seconds: dict[str, float] = defaultdict(float)
        for name, share in self.accounts.items():
            route, _, phase = name.rpartition(" ")
            if phase in HOLDING_PHASES:
                seconds[route] += share
        total = sum(seconds.values())
        return {route: part / total for route, part in seconds.items()} if total > 0 else self.blame

    @cached_property
    def causes(self) -> dict[str, float]:
        """Cause of the verdict -> its true share of the response time.

        What the app itself waits for is in ``queueing``, ``inside`` and ``service``: it is a queue, and within the app.
        """
        sums: dict[str, float] = defaultdict(float)
        inner = 0.0
        for r in self.served().logged:
            if r.status == SWITCHING_PROTOCOLS:
                continue  # a connection lasts as long as it is used; the split leaves it out
            inner += r.inner
            sums["queueing"] += r.queued + r.inner
            sums["inside"] += r.inner
            sums["service"] += r.headers - r.got_worker - r.loop
            sums["body"] += r.answered - r.headers
            sums["before"] += r.upload
            sums["after"] += r.send
            sums["network"] += 2 * (r.reached - r.gated)
        total = sum(sums.values()) - 2 * inner
        return {cause: part / total for cause, part in sums.items()}

    def response(self, change: Change = AS_IT_IS) -> tuple[float, float]:
        """Return mean and p99 of the response time of the logged requests, s."""
        requests = [r for r in self.served(change).logged if r.status != SWITCHING_PROTOCOLS]
        times = np.array([r.end - r.start for r in requests])
        return float(times.mean()), float(np.quantile(times, 0.99))

    @cached_property
    def heaviest(self) -> str:
        """The route with the most seconds of service."""
        seconds: dict[str, float] = defaultdict(float)
        for r in self.served().logged:
            seconds[r.route] += r.headers - r.begun
        return max(seconds, key=lambda route: seconds[route])

    def wait(self, change: Change, share: float) -> float:
        """Return a quantile of all waiting of a request, s: from the stamp to the app's start, and inside the app."""
        return float(np.quantile([r.begun - r.stamp + r.inner for r in self.served(change).logged], share))

    @cached_property
    def needed(self) -> int | None:
        """The smallest number of workers with 95 % of the waits at most 0.1 s; None: there is none."""
        present = self.served().workers
        most = SEARCHED * present + 40
        if self.wait(Change(total=most), 0.95) > 0.1:
            return None
        low, high = 0, present
        while self.wait(Change(total=high), 0.95) > 0.1:
            low, high = high, max(high + 1, int(high * 1.5))
        while high - low > 1:
            middle = (low + high) // 2
            if self.wait(Change(total=middle), 0.95) > 0.1:
                low = middle
            else:
                high = middle
        return high


def charge(
    waits: Sequence[tuple[float, float]], holds: Sequence[tuple[float, float, str]], seconds: dict[str, float]
) -> None:
    """Add the waiting of every instant, in equal parts, to the routes of the requests that hold a place then."""
    events: list[tuple[float, int, str]] = []
    for begin, end in waits:
        if end > begin:
            events += [(begin, 1, ""), (end, -1, "")]
    for begin, end, route in holds:
        events += [(begin, 1, route), (end, -1, route)]
    holders: dict[str, int] = defaultdict(int)
    waiting, before = 0, -math.inf
    for instant, step, route in sorted(events):
        count = sum(holders.values())
        if waiting and count and instant > before:
            for each, number in holders.items():
                seconds[each] += (instant - before) * waiting * number / count
        before = instant
        if route:
            holders[route] += step
        else:
            waiting += step
