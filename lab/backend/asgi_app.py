"""The lab's app for ASGI: what app.py does, on an event loop.

    /sleep/<seconds>?status=N&route=/NAME     holds the loop for LOOP_SHARE of the seconds, and awaits the rest; with
                                              LAB_CONNECTIONS awaits all of them, in one of so many connections
    /ready                                    answered without the middleware

LAB_SLOWDOWN multiplies every sleep; LAB_SILENT=1: there is no middleware around the app.
"""

from __future__ import annotations

import asyncio
import math
import os
import re
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qs

from sojourn_middleware import ASGIMiddleware

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

LOOP_SHARE = 0.3
LONGEST = 86_400.0
CONNECTIONS = int(os.environ.get("LAB_CONNECTIONS", "0"))
SLOWDOWN = float(os.environ.get("LAB_SLOWDOWN", "1"))
POOL = asyncio.Semaphore(max(CONNECTIONS, 1))
ROUTE = re.compile(r"/[a-z0-9/_-]{1,60}")


async def sleeper(scope: Message, _: Receive, send: Send) -> None:
    """Answer /sleep/<seconds> as described above; 404 for another path, 400 for an invalid number."""
    if scope["type"] != "http":
        return
    head, _, text = scope["path"].lstrip("/").partition("/")
    query = parse_qs(scope["query_string"].decode("latin-1"))
    route = query.get("route", ["/sleep/{seconds}"])[-1]
    scope["sojourn.route"] = route
    if head != "sleep":
        await _plain(send, 404, "only /sleep/<seconds> and /ready exist")
        return
    try:
        seconds = float(text)
        status = int(query.get("status", ["200"])[-1])
        if not 0.0 <= seconds <= LONGEST or not math.isfinite(seconds) or not 200 <= status <= 599:
            raise ValueError
        if route != "/sleep/{seconds}" and not ROUTE.fullmatch(route):
            raise ValueError
    except ValueError:
        await _plain(send, 400, "seconds, status and route must be a time, a status and the name of a route")
        return
    if CONNECTIONS:
        async with POOL:
            await asyncio.sleep(seconds * SLOWDOWN)
    else:
        time.sleep(seconds * LOOP_SHARE * SLOWDOWN)  # as computing does: no other request is served
        await asyncio.sleep(seconds * (1.0 - LOOP_SHARE) * SLOWDOWN)
    await _plain(send, status, f"slept {seconds:g} s")


async def _plain(send: Send, status: int, text: str) -> None:
    body = f"{text}\n".encode()
    headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


measured = sleeper if os.environ.get("LAB_SILENT") == "1" else ASGIMiddleware(sleeper)


async def application(scope: Message, receive: Receive, send: Send) -> None:
    """Serve the app behind the middleware, and /ready without it."""
    if scope["type"] == "lifespan":
        while (message := await receive())["type"] != "lifespan.shutdown":
            await send({"type": f"{message['type']}.complete"})
        await send({"type": "lifespan.shutdown.complete"})
    elif scope.get("path") == "/ready":
        await _plain(send, 200, "ready")
    else:
        await measured(scope, receive, send)
