"""Resources that workers share, and speeds that change."""

from __future__ import annotations

import math

from systems.kernel import Cores, Process, Slots
from systems.kinds.loops import on_a_pool, on_cores
from systems.registry import kind
from systems.requests import Change, Request, drawn
from systems.site import Setup, Site, serve
from systems.truth import Facts, Served


@kind("shared-cores", Facts("4 workers burn CPU on 2 cores"))
def shared_cores(change: Change) -> Served:
    """Simulate more workers than cores: services take longer the more there are."""
    return Served.by(serve(drawn(3000, 22.5, seed=71, change=change), Setup(workers=4, work=on_cores(2)), change))


@kind("saturating-database", Facts("3 backends of 4 workers on a database that serves 4 queries at full speed"))
def saturating_database(change: Change) -> Served:
    """Simulate backends that wait for one database."""
    setup = Setup(workers=4, backends=3, work=on_cores(4))
    return Served.by(serve(drawn(3000, 46.0, seed=72, change=change), setup, change))


@kind("lock", Facts("a third of each service is under one lock"))
def lock(change: Change) -> Served:
    """Simulate a lock that all requests take."""
    locks: dict[Site, Slots] = {}

    def work(request: Request, site: Site) -> Process:
        if site not in locks:
            locks[site] = Slots(site.kernel, 1)
        yield request.service / 3
        due = site.kernel.now
        yield locks[site].take
        request.inner += site.kernel.now - due
        yield request.service / 3
        locks[site].release()
        yield request.service / 3

    return Served.by(serve(drawn(3000, 34.5, seed=73, change=change), Setup(workers=4, work=work), change))


@kind("cache-refill", Facts("all requests refill an expired cache at once, in one database"))
def cache_refill(change: Change) -> Served:
    """Simulate a cache that expires every 4 s; requests that miss compete for the database until it is filled."""
    state: dict[Site, tuple[Cores, list[float]]] = {}

    def work(request: Request, site: Site) -> Process:
        database, filled = state.setdefault(site, (Cores(site.kernel, 1), [-math.inf]))
        if site.kernel.now > filled[0] + 4.0:
            yield database.burn(0.35)
            if site.kernel.now > filled[0] + 4.0:
                filled[0] = site.kernel.now
        yield request.service

    return Served.by(serve(drawn(3000, 34.0, seed=74, change=change), Setup(workers=6, work=work), change))


@kind("noisy-neighbour", Facts("services take 1.8 times as long for 10 s of every 30 s"))
def noisy_neighbour(change: Change) -> Served:
    """Simulate a neighbour that slows the host at times."""

    def work(request: Request, site: Site) -> Process:
        yield request.service * (1.8 if site.kernel.now % 30.0 > 20.0 else 1.0)

    return Served.by(serve(drawn(3000, 30.0, seed=75, change=change), Setup(workers=4, work=work), change))


@kind("cold-cache", Facts("services take twice as long at first, and recover within half a minute"))
def cold_cache(change: Change) -> Served:
    """Simulate a cache that fills after a start."""

    def work(request: Request, site: Site) -> Process:
        yield request.service * (1.0 + 1.0 * math.exp(-site.kernel.now / 15.0))

    return Served.by(serve(drawn(3000, 31.0, seed=76, change=change), Setup(workers=4, work=work), change))


@kind("slow-worker", Facts("one of 4 workers takes 2.5 times as long"))
def slow_worker(change: Change) -> Served:
    """Simulate a worker on a slower host."""

    def work(request: Request, site: Site) -> Process:
        yield request.service * (2.5 if site.worker_of(request).index == 0 else 1.0)

    return Served.by(serve(drawn(3000, 34.0, seed=77, change=change), Setup(workers=4, work=work), change))


@kind("gil", Facts("4 threads that share an interpreter lock for 60 % of their work"))
def gil(change: Change) -> Served:
    """Simulate threads of which one at a time computes, and that wait for others outside the lock."""
    setup = Setup(workers=4, work=on_cores(1, share=0.6))
    return Served.by(serve(drawn(3000, 17.5, seed=78, change=change), setup, change))


@kind("cores-of-a-host", Facts("4 backends of 3 workers, two on each of 2 hosts with 3 cores"))
def cores_of_a_host(change: Change) -> Served:
    """Simulate backends that share the cores of their host, and nothing with the other host."""
    shared: dict[tuple[Site, int], Cores] = {}

    def work(request: Request, site: Site) -> Process:
        cores = shared.setdefault((site, request.backend // 2), Cores(site.kernel, 3 + change.cores))
        yield from cores.compute(request, request.service)

    def address(request: Request, _: Site) -> str:
        return f"10.0.0.{1 + request.backend // 2}:{8080 + request.backend % 2}"

    setup = Setup(workers=3, backends=4, address=address, work=work)
    return Served.by(serve(drawn(6000, 66.0, seed=79, change=change), setup, change))


@kind("cores-and-neighbour", Facts("4 workers on 2 cores; all takes 1.8 times as long for 10 s of every 30 s"))
def cores_and_neighbour(change: Change) -> Served:
    """Simulate a neighbour that slows the host at times, beside workers that share cores."""
    shared: dict[Site, Cores] = {}

    def work(request: Request, site: Site) -> Process:
        cores = shared.setdefault(site, Cores(site.kernel, 2 + change.cores))
        yield from cores.compute(request, request.service * (1.8 if site.kernel.now % 30.0 > 20.0 else 1.0))

    return Served.by(serve(drawn(4000, 16.0, seed=80, change=change), Setup(workers=4, work=work), change))


@kind("thread-pool", Facts("an async app serves its pages on 8 threads; they wait for a thread inside", workers=False,
                           utilisation=False, excluded=frozenset({"healthy"})))  # fmt: skip
def thread_pool(change: Change) -> Served:
    """Simulate an ASGI server whose pages are functions on a pool of threads."""
    setup = Setup(
        workers=1, groups=lambda size: [2_000] * size, choose=lambda *_: 0, name=lambda *_: "2000", work=on_a_pool(8)
    )
    return Served.by(serve(drawn(4000, 92.0, seed=86, change=change), setup, change))


@kind("pool-behind-workers", Facts("6 threads wait inside for one of 3 database connections", apart="places"))
def pool_behind_workers(change: Change) -> Served:
    """Simulate requests that wait twice: for a thread, and in it for a connection."""
    setup = Setup(workers=6, work=on_a_pool(3 + change.cores))
    return Served.by(serve(drawn(3000, 35.0, seed=87, change=change), setup, change))


@kind(
    "slots-behind-backends", Facts("2 backends of 4 workers wait for a service that serves 3 at a time", apart="places")
)
def slots_behind_backends(change: Change) -> Served:
    """Simulate backends that ask one service almost at once, which serves a few requests at a time."""
    setup = Setup(workers=4, backends=2, work=on_a_pool(3 + change.cores, own=0.002, shared=True))
    return Served.by(serve(drawn(3000, 35.0, seed=88, change=change), setup, change))
