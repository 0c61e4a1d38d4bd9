"""Apps whose requests last until the file RELEASE exists; outside of the middleware, /metrics has the gauge of them.

In the multiprocess mode of prometheus_client, /metrics shows the sum over the processes.
"""

import asyncio
import os
import time

from prometheus_client import REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from sojourn_middleware import ASGIMiddleware, WSGIMiddleware

HOLDS_S = 60
registry = REGISTRY
if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
    registry = CollectorRegistry()
    MultiProcessCollector(registry)


def released():
    return os.path.exists(os.environ["RELEASE"])


def hold():
    deadline = time.monotonic() + HOLDS_S
    while not released():
        if time.monotonic() > deadline:
            raise TimeoutError("not released")
        time.sleep(0.01)


async def hold_async():
    async with asyncio.timeout(HOLDS_S):
        while not released():
            await asyncio.sleep(0.01)


def events():
    yield b"data: first\n\n"
    hold()


def held(environ, start_response):
    path = environ["PATH_INFO"]
    if path == "/events":
        start_response("200 OK", [("Content-Type", "text/event-stream; charset=utf-8")])
        return events()
    if path != "/quick":
        hold()
    if path == "/error":
        raise RuntimeError("an error of the app")
    start_response("200 OK", [("Content-Length", "5")])
    return [b"ended"]


measured = WSGIMiddleware(held, prometheus=True, service="shop")


def wsgi(environ, start_response):
    if environ["PATH_INFO"] == "/metrics":
        start_response("200 OK", [("Content-Type", "text/plain; version=0.0.4")])
        return [generate_latest(registry)]
    return measured(environ, start_response)


async def respond(send, body, content_type=b"text/plain", more=False):
    headers = [(b"content-type", content_type)]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": more})


async def held_async(scope, receive, send):
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        await hold_async()
        await send({"type": "websocket.close"})
    elif scope["path"] == "/events":
        await respond(send, b"data: first\n\n", b"text/event-stream", more=True)
        await hold_async()
        await send({"type": "http.response.body"})
    else:
        await hold_async()
        if scope["path"] == "/error":
            raise RuntimeError("an error of the app")
        await respond(send, b"ended")


measured_async = ASGIMiddleware(held_async, prometheus=True, service="shop")


async def asgi(scope, receive, send):
    if scope["type"] == "lifespan":
        return
    if scope.get("path") == "/metrics":
        await respond(send, generate_latest(registry))
        return
    await measured_async(scope, receive, send)
