"""Asynchronous apps: many requests at once in one process."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from systems.kernel import Cores, Process, Slots
from systems.registry import kind
from systems.requests import Change, Request, Route, drawn, lognormal, uniform
from systems.site import Group, Setup, Site, Worker, serve
from systems.truth import Facts, Served

MANY = 2_000  # requests at once in a process that has no limit
NO_LIMIT = "one process serves many requests at once"


def _processes(size: int) -> list[int]:
    return [MANY] * size


def _any(_: Request, groups: Sequence[Group], site: Site) -> int:
    return site.rng.randrange(len(groups))


def _process(request: Request, _: Worker) -> str:
    return str(2000 + request.group)


class Loops:
    """Event loops, one for each process: pieces of work one at a time, in the order of their arrival."""

    def __init__(self) -> None:
        self.busy = 0.0
        self._loops: dict[tuple[Site, int], Slots] = {}

    def run(self, request: Request, site: Site, seconds: float, *, first: bool = False) -> Process:
        """Compute for some time on the loop; the app starts when the first piece does."""
        key = (site, request.group)
        if key not in self._loops:
            self._loops[key] = Slots(site.kernel, 1)
        due = site.kernel.now
        yield self._loops[key].take
        waited = site.kernel.now - due
        if first:
            request.begun, request.loop = site.kernel.now, waited
        else:
            request.inner += waited
        yield seconds
        self.busy += seconds
        self._loops[key].release()


@kind("event-loop", Facts("one event loop, 75 % busy; " + NO_LIMIT))
def event_loop(change: Change) -> Served:
    """Simulate pages that compute, wait for a database, and compute again."""
    loops = Loops()

    def work(request: Request, site: Site) -> Process:
        yield from loops.run(request, site, request.service * 0.1, first=True)
        yield request.service * 0.8
        yield from loops.run(request, site, request.service * 0.1)

    setup = Setup(workers=1, groups=_processes, choose=_any, name=_process, work=work)
    site = serve(drawn(3000, 48.0, seed=81, change=change), setup, change)
    return Served.by(site, busy=loops.busy)


def on_a_pool(places: int, *, own: float = 0.0, shared: bool = False) -> Callable[[Request, Site], Process]:
    """Return services that wait for a place of a pool first.

    Args:
        places: of the pool.
        own: work before they wait, s.
        shared: one pool serves all backends; else each process has its own.
    """
    pools: dict[tuple[Site, int], Slots] = {}

    def work(request: Request, site: Site) -> Process:
        pool = pools.setdefault((site, 0 if shared else request.group), Slots(site.kernel, places))
        yield own
        due = site.kernel.now
        yield pool.take
        request.inner = site.kernel.now - due
        yield request.service
        pool.release()

    return work


def on_cores(count: int, *, share: float = 1.0) -> Callable[[Request, Site], Process]:
    """Return services of which a share is computed on the cores of the site, after the rest."""
    shared: dict[Site, Cores] = {}

    def work(request: Request, site: Site) -> Process:
        cores = shared.setdefault(site, Cores(site.kernel, count))
        if share < 1.0:
            yield request.service * (1.0 - share)
        yield from cores.compute(request, request.service * share)

    return work


@kind(
    "inner-pool",
    Facts(
        "an async app waits for one of 5 database connections", workers=False, utilisation=False,
        excluded=frozenset({"healthy"}),
    ),
)  # fmt: skip
def inner_pool(change: Change) -> Served:
    """Simulate pages that wait for a connection of the pool inside their service."""
    setup = Setup(workers=1, groups=_processes, choose=_any, name=_process, work=on_a_pool(5))
    return Served.by(serve(drawn(3000, 59.0, seed=82, change=change), setup, change))


@kind("long-polls", Facts("long polls of 5 to 15 s hold no worker", workers=False, utilisation=False))
def long_polls(change: Change) -> Served:
    """Simulate an event loop on which a tenth of the requests sleep for long."""
    loops = Loops()

    def work(request: Request, site: Site) -> Process:
        polls = request.route == "/poll"
        yield from loops.run(request, site, 0.001 if polls else request.service, first=True)
        if polls:
            yield request.service

    routes = (Route("/page", 0.9, lognormal(0.012)), Route("/poll", 0.1, uniform(5.0, 15.0)))
    setup = Setup(workers=1, groups=_processes, choose=_any, name=_process, work=work)
    return Served.by(serve(drawn(3000, 60.0, routes, seed=83, change=change), setup, change))


@kind("goroutines", Facts("goroutines without a limit on 2 cores", workers=False, utilisation=False))
def goroutines(change: Change) -> Served:
    """Simulate a Go server: each request starts at once, and all share two cores."""
    setup = Setup(workers=1, groups=_processes, choose=_any, name=_process, work=on_cores(2))
    return Served.by(serve(drawn(3000, 22.0, seed=84, change=change), setup, change))


@kind("one-worker-each", Facts("goroutines that report a worker value each, on 2 cores", workers=False))
def one_worker_each(change: Change) -> Served:
    """Simulate a server that names a worker per request in service: the lowest free number."""
    setup = Setup(workers=24, pick="last", work=on_cores(2))
    return Served.by(serve(drawn(3000, 21.0, seed=85, change=change), setup, change))
