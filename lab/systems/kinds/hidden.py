"""Load that is not in the log, or is there more than once."""

from __future__ import annotations

from systems.log import COPY
from systems.registry import kind
from systems.requests import Change, Request, drawn, rng_of
from systems.site import Setup, Site, serve
from systems.truth import Facts, Served


@kind("hidden-load", Facts("half of the load is not in the log"))
def hidden_load(change: Change) -> Served:
    """Simulate another entrance that shares the workers."""
    requests = drawn(6000, 43.0, seed=51, change=change)
    rng = rng_of(52)
    for request in requests:
        request.hidden = rng.random() < 0.5
    return Served.by(serve(requests, Setup(workers=4), change))


@kind("missing-lines", Facts("the log lacks 10 s of every 30 s"))
def missing_lines(change: Change) -> Served:
    """Simulate a log that loses lines, as when it is rotated by copying."""
    requests = drawn(3000, 41.0, seed=53, change=change)
    served = Served.by(serve(requests, Setup(workers=4), change))
    for request in requests:
        request.hidden = request.end % 30.0 > 20.0
    return served


@kind("two-stretches", Facts("two stretches of 40 s with 60 s without traffic in between"))
def two_stretches(change: Change) -> Served:
    """Simulate traffic that stops for a minute."""
    requests = drawn(3000, lambda t: 41.0 if not 40.0 < t < 100.0 else 0.0, seed=54, change=change, most_rate=41.0)
    return Served.by(serve(requests, Setup(workers=4), change))


@kind("abandoned", Facts("clients leave after 0.4 s, and the workers serve them all the same"))
def abandoned(change: Change) -> Served:
    """Simulate clients that disconnect; the app is not notified."""
    requests = drawn(3000, 43.0, seed=55, change=change)
    for request in requests:
        request.timeout, request.give_up = 0.4, 499
    return Served.by(serve(requests, Setup(workers=4), change))


@kind("retry-storm", Facts("bursts; timed out after 0.5 s and sent again once, so that copies are a part of the load"))
def retry_storm(change: Change) -> Served:
    """Simulate clients that send a request again when nginx gave it up."""
    site = Site(Setup(workers=4), change)

    def send(request: Request, again: int) -> None:
        request.timeout = 0.5
        site.kernel.start(site.visit(request), request.stamp)
        if again:
            site.kernel.call(lambda: give_up(request, again), request.stamp + request.timeout)

    def give_up(request: Request, again: int) -> None:
        if request.headers <= site.kernel.now:
            return
        copy = Request(
            request.number + COPY, site.kernel.now + 0.05, request.route, request.service, client=request.client
        )
        send(copy, again - 1)

    arrivals = drawn(3000, lambda t: 75.0 if t % 20.0 < 2.0 else 18.0, seed=56, change=change, most_rate=75.0)
    for request in arrivals:
        send(request, 1)
    site.run()
    return Served.by(site)
