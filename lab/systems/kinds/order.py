"""Other orders than that of arrival, and clients that wait for their answers."""

from __future__ import annotations

from systems.kernel import Process
from systems.registry import kind
from systems.requests import PAGES, Change, drawn, request_of, rng_of
from systems.site import Setup, Site, serve
from systems.truth import Facts, Served


@kind("lifo", Facts("4 workers, last come first served", ordered=True))
def lifo(change: Change) -> Served:
    """Simulate a stack."""
    return Served.by(serve(drawn(3000, 42.0, seed=91, change=change), Setup(workers=4, order="lifo"), change))


@kind("priority", Facts("4 workers, /search before /page", ordered=True))
def priority(change: Change) -> Served:
    """Simulate a queue in which one route goes first."""
    setup = Setup(workers=4, order=lambda request: float(request.route != "/search"))
    return Served.by(serve(drawn(3000, 43.0, seed=92, change=change), setup, change))


@kind("shortest-first", Facts("4 workers, the shortest service first", ordered=True))
def shortest_first(change: Change) -> Served:
    """Simulate a queue ordered by the time that requests need."""
    setup = Setup(workers=4, order=lambda request: request.service)
    return Served.by(serve(drawn(3000, 45.0, seed=93, change=change), setup, change))


@kind("closed-loop", Facts("24 clients, each with a think time of 0.3 s after its answer"))
def closed_loop(change: Change) -> Served:
    """Simulate clients that send the next request some time after the answer."""
    site = Site(Setup(workers=4), change)

    def client(number: int) -> Process:
        rng = rng_of(f"94 {number}")
        for turn in range(150):
            yield rng.expovariate(1 / 0.3)
            route = rng.choices(PAGES, [each.share for each in PAGES])[0]
            request = request_of(rng, 1000 * number + turn, site.kernel.now, route, change)
            request.client = number
            yield request.upload
            yield from site.visit(request)
            yield request.end - site.kernel.now

    for number in range(24):
        site.kernel.start(client(number), 0.0)
    site.run()
    return Served.by(site)
