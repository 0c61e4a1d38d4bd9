"""Answers whose body takes long, work after the answer, and work before the start."""

from __future__ import annotations

from systems.registry import kind
from systems.requests import PAGE, SEARCH, Change, Route, drawn, exponential, lognormal, uniform
from systems.site import Setup, serve
from systems.truth import Facts, Served

EXPORT = Route("/export", 0.03, lognormal(0.02), body=lognormal(2.0, 0.2))
STREAMING = (Route("/page", 0.97, exponential(0.02)), EXPORT)
SOCKET = Route("/socket", 0.02, lognormal(0.005), body=uniform(2.0, 10.0), upgraded=True)
WITH_SOCKETS = (Route("/page", 0.68, PAGE.service), SEARCH, SOCKET)
THE_APP = frozenset({"client"})


@kind("streaming-body", Facts("workers held by the body of /export, 2 s", excluded=THE_APP))
def streaming_body(change: Change) -> Served:
    """Simulate synchronous workers; 3 % of the requests stream for 2 s after their headers."""
    return Served.by(serve(drawn(3000, 21.0, STREAMING, seed=21, change=change), Setup(workers=2), change))


@kind("streaming-body-spans", Facts("as streaming-body, with spans to the release", excluded=THE_APP, spans="released"))
def streaming_body_spans(change: Change) -> Served:
    """Simulate streaming, with spans that show what held the workers."""
    return streaming_body(change)


@kind("body-elsewhere", Facts("a writer thread sends the body of /export; it holds no worker", excluded=THE_APP))
def body_elsewhere(change: Change) -> Served:
    """Simulate workers that hand the body to a thread of their own."""
    routes = (PAGE, SEARCH, EXPORT)
    setup = Setup(workers=4, body_holds=False)
    return Served.by(serve(drawn(3000, 42.0, routes, seed=24, change=change), setup, change))


@kind("body-elsewhere-spans", Facts("as body-elsewhere, with spans to the headers", excluded=THE_APP, spans="headers"))
def body_elsewhere_spans(change: Change) -> Served:
    """Simulate a writer thread, with spans that end at the headers."""
    return body_elsewhere(change)


@kind("websockets", Facts("threads held by WebSocket connections of 2 to 10 s", excluded=THE_APP))
def websockets(change: Change) -> Served:
    """Simulate threads that serve one request or one WebSocket connection at a time."""
    return Served.by(serve(drawn(8000, 45.0, WITH_SOCKETS, seed=27, change=change), Setup(workers=10), change))


@kind("websockets-elsewhere", Facts("a hub serves the WebSocket connections; they hold no worker", excluded=THE_APP))
def websockets_elsewhere(change: Change) -> Served:
    """Simulate workers that hand each WebSocket connection to a hub."""
    setup = Setup(workers=4, body_holds=False)
    return Served.by(serve(drawn(8000, 42.0, WITH_SOCKETS, seed=28, change=change), setup, change))


@kind("after-one-route", Facts("workers held after the answer of /order, 0.6 s"))
def after_one_route(change: Change) -> Served:
    """Simulate one route that goes on working after its answer has left."""
    routes = (Route("/page", 0.8, exponential(0.03)), Route("/order", 0.2, exponential(0.05), after=exponential(0.6)))
    return Served.by(serve(drawn(3000, 21.0, routes, seed=22, change=change), Setup(workers=4), change))


@kind("after-all-routes", Facts("workers held after every answer, 0.1 s"))
def after_all_routes(change: Change) -> Served:
    """Simulate requests that are all followed by work after their answers."""
    after = lognormal(0.1)
    routes = (Route("/page", 0.7, PAGE.service, after=after), Route("/search", 0.3, SEARCH.service, after=after))
    return Served.by(serve(drawn(3000, 20.5, routes, seed=23, change=change), Setup(workers=4), change))


@kind("slow-readers", Facts("buffering off: clients that read slowly hold workers"))
def slow_readers(change: Change) -> Served:
    """Simulate answers that workers write at the speed of the clients."""
    slow = lognormal(0.35, 1.0)
    routes = (Route("/page", 0.8, PAGE.service), Route("/file", 0.2, lognormal(0.02), body=slow))
    return Served.by(serve(drawn(3000, 29.0, routes, seed=25, change=change), Setup(workers=4), change))


@kind("upload-before-start", Facts("workers read the upload of /upload, 0.3 s, before the app's start"))
def upload_before_start(change: Change) -> Served:
    """Simulate servers that hold a worker while they read a request, before the app starts."""
    routes = (Route("/page", 0.8, PAGE.service), Route("/upload", 0.2, lognormal(0.04), before=exponential(0.3)))
    return Served.by(serve(drawn(3000, 32.0, routes, seed=26, change=change), Setup(workers=4), change))
