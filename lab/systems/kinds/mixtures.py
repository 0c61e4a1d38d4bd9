"""Mixtures: two of the other themes in one system."""

from __future__ import annotations

from collections.abc import Iterator

from systems.kernel import Process
from systems.kinds.bodies import EXPORT, STREAMING
from systems.kinds.bound import at_random, in_turn, one_each
from systems.kinds.loops import on_cores
from systems.registry import kind
from systems.requests import PAGE, SEARCH, Change, Request, Route, drawn, exponential, lognormal, rng_of
from systems.site import Setup, Site, serve
from systems.truth import Facts, Served

THE_APP = frozenset({"client"})
ORDER = Route("/order", 0.2, exponential(0.05), after=exponential(0.4))
WITH_ORDERS = (Route("/page", 0.8, exponential(0.03)), ORDER)


def _deploys(workers: int) -> Iterator[tuple[int, float, float]]:
    for begin in (25.0, 65.0, 105.0):
        for worker in range(workers):
            yield worker, begin + 0.3 * worker, begin + 0.3 * worker + 4.0


@kind(
    "streaming-and-hidden",
    Facts("bodies of 2 s hold workers, and 30 % of the load is not in the log", excluded=THE_APP),
)
def streaming_and_hidden(change: Change) -> Served:
    """Simulate streaming with another entrance that shares the workers."""
    requests = drawn(4000, 24.0, STREAMING, seed=101, change=change)
    rng = rng_of(102)
    for request in requests:
        request.hidden = rng.random() < 0.3
    return Served.by(serve(requests, Setup(workers=3), change))


@kind("streaming-and-after", Facts("bodies and work after the answer hold workers", excluded=THE_APP))
def streaming_and_after(change: Change) -> Served:
    """Simulate one route that streams, and another that works after its answer."""
    routes = (
        Route("/page", 0.78, exponential(0.03)),
        ORDER,
        Route("/export", 0.02, lognormal(0.02), body=lognormal(2.0, 0.2)),
    )
    return Served.by(serve(drawn(3000, 20.0, routes, seed=103, change=change), Setup(workers=4), change))


@kind(
    "bound-and-streaming",
    Facts("processes with queues of their own, held by bodies of 2 s", apart="processes", excluded=THE_APP),
)
def bound_and_streaming(change: Change) -> Served:
    """Simulate SO_REUSEPORT in front of processes that stream."""
    setup = Setup(workers=4, groups=one_each, choose=at_random)
    return Served.by(serve(drawn(3000, 25.0, STREAMING, seed=104, change=change), setup, change))


@kind("bound-and-after", Facts("processes with queues of their own, held after the answer", apart="processes"))
def bound_and_after(change: Change) -> Served:
    """Simulate a master that deals in turn to processes that work after their answers."""
    setup = Setup(workers=4, groups=one_each, choose=in_turn)
    return Served.by(serve(drawn(3000, 17.0, WITH_ORDERS, seed=105, change=change), setup, change))


@kind("streaming-on-cores", Facts("4 workers on 2 cores, some held by bodies of 2 s", excluded=THE_APP))
def streaming_on_cores(change: Change) -> Served:
    """Simulate CPU-bound workers that also stream."""
    routes = (Route("/page", 0.97, lognormal(0.05)), EXPORT)
    return Served.by(
        serve(drawn(3000, 19.0, routes, seed=106, change=change), Setup(workers=4, work=on_cores(2)), change)
    )


@kind("half-on-cores", Facts("6 workers, half of each service on 2 cores"))
def half_on_cores(change: Change) -> Served:
    """Simulate services of which one half computes and the other waits elsewhere."""
    setup = Setup(workers=6, work=on_cores(2, share=0.5))
    return Served.by(serve(drawn(3000, 38.0, seed=107, change=change), setup, change))


@kind("pauses-and-after", Facts("all workers stand still at times, and are held after some answers"))
def pauses_and_after(change: Change) -> Served:
    """Simulate a garbage collector beside work after the answer."""
    stops = [(4.0 + 9.0 * i, 4.7 + 9.0 * i) for i in range(60)]
    return Served.by(
        serve(drawn(3000, 21.0, WITH_ORDERS, seed=108, change=change), Setup(workers=4, pauses=stops), change)
    )


@kind(
    "deploys-and-streaming",
    Facts("workers are replaced three times, and held by bodies of 2 s", apart="absences", excluded=THE_APP),
)
def deploys_and_streaming(change: Change) -> Served:
    """Simulate deployments of workers that stream."""
    setup = Setup(workers=4, absences=_deploys)
    return Served.by(serve(drawn(3000, 24.0, STREAMING, seed=109, change=change), setup, change))


@kind(
    "limit-and-streaming",
    Facts("at most 4 of 8 workers are used, and bodies of 2 s hold them", apart="limit", excluded=THE_APP),
)
def limit_and_streaming(change: Change) -> Served:
    """Simulate max_conns in front of workers that stream."""
    setup = Setup(workers=8, limit=4)
    return Served.by(serve(drawn(3000, 30.0, STREAMING, seed=110, change=change), setup, change))


@kind("lifo-and-after", Facts("the last one first, and workers held after some answers", ordered=True))
def lifo_and_after(change: Change) -> Served:
    """Simulate a stack of requests in front of workers that work after their answers."""
    setup = Setup(workers=4, order="lifo")
    return Served.by(serve(drawn(3000, 21.0, WITH_ORDERS, seed=111, change=change), setup, change))


@kind("database-and-bound", Facts("one database for all, and processes with queues of their own"))
def database_and_bound(change: Change) -> Served:
    """Simulate SO_REUSEPORT in front of processes that share a database of 3 connections."""
    setup = Setup(workers=5, groups=one_each, choose=at_random, work=on_cores(3))
    return Served.by(serve(drawn(3000, 30.0, seed=112, change=change), setup, change))


@kind("slow-worker-and-hidden", Facts("one of 4 workers takes twice as long, and 40 % of the load is not in the log"))
def slow_worker_and_hidden(change: Change) -> Served:
    """Simulate a slow host, with another entrance that shares the workers."""

    def work(request: Request, site: Site) -> Process:
        yield request.service * (2.0 if site.worker_of(request).index == 0 else 1.0)

    requests = drawn(5000, 38.0, seed=113, change=change)
    rng = rng_of(114)
    for request in requests:
        request.hidden = rng.random() < 0.4
    return Served.by(serve(requests, Setup(workers=4, work=work), change))


@kind("abandoned-and-streaming", Facts("clients leave after 0.8 s, and bodies of 2 s hold workers", excluded=THE_APP))
def abandoned_and_streaming(change: Change) -> Served:
    """Simulate clients that disconnect from workers that stream."""
    requests = drawn(3000, 24.0, STREAMING, seed=115, change=change)
    for request in requests:
        request.timeout, request.give_up = 0.8, 499
    return Served.by(serve(requests, Setup(workers=3), change))


@kind("far-and-busy", Facts("backends 40 ms away with workers 85 % held"))
def far_and_busy(change: Change) -> Served:
    """Simulate a backend far away whose workers are busy, too."""
    return Served.by(serve(drawn(3000, 43.0, seed=116, change=change), Setup(workers=4, way=0.04), change))


@kind("uploads-and-cores", Facts("workers read uploads before they start, and compute on 2 cores"))
def uploads_and_cores(change: Change) -> Served:
    """Simulate uploads that workers read, in front of services that share cores."""
    routes = (Route("/page", 0.85, PAGE.service), Route("/upload", 0.15, SEARCH.service, before=exponential(0.25)))
    return Served.by(
        serve(drawn(3000, 20.0, routes, seed=117, change=change), Setup(workers=4, work=on_cores(2)), change)
    )
