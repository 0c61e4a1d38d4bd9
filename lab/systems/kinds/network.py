"""Ways to backends, addresses, names of workers and clocks."""

from __future__ import annotations

from systems.registry import kind
from systems.requests import Change, Request, Route, drawn, lognormal
from systems.site import Setup, Site, serve
from systems.truth import Facts, Served


@kind("far-backend", Facts("no queue: a backend 50 ms away, 9 % load", excluded=frozenset({"queueing"})))
def far_backend(change: Change) -> Served:
    """Simulate a way to the backend that takes as long as the work."""
    routes = (Route("/page", 0.8, lognormal(0.03)), Route("/search", 0.2, lognormal(0.06)))
    return Served.by(serve(drawn(2500, 10.0, routes, seed=61, change=change), Setup(workers=4, way=0.025), change))


@kind("two-addresses", Facts("two addresses lead to one backend of 4 workers"))
def two_addresses(change: Change) -> Served:
    """Simulate a backend that listens on two addresses."""

    def address(_: Request, site: Site) -> str:
        return f"10.0.0.{site.rng.randrange(1, 3)}:8080"

    return Served.by(serve(drawn(3000, 41.0, seed=62, change=change), Setup(workers=4, address=address), change))


@kind("one-worker-value", Facts("8 threads with one worker value"))
def one_worker_value(change: Change) -> Served:
    """Simulate threads that report the process they belong to."""
    setup = Setup(workers=8, name=lambda *_: "1001")
    return Served.by(serve(drawn(3000, 85.0, seed=63, change=change), setup, change))


@kind("clock-step", Facts("4 workers; the backend's clock is set back by 80 ms in the middle"))
def clock_step(change: Change) -> Served:
    """Simulate a clock that is set while requests are served."""
    requests = drawn(3000, 40.0, seed=64, change=change)
    served = Served.by(serve(requests, Setup(workers=4), change))
    for request in requests:
        request.clock = 0.137 if request.begun < 50.0 else 0.057
    return served
