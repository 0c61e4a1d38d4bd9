"""Requests with hostile headers, and apps with hostile names, through the middleware: served as if it were not there,
and its own headers are printable.

Parts are divided by line feeds: the path, the route the app tells, a traceparent, a header of the app's, its value.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, MutableMapping
from random import Random
from typing import Any

from sojourn_middleware import ASGIMiddleware, WSGIMiddleware

from fuzz import nasty
from fuzz.targets import stamp

PACKAGES: tuple[str, ...] = ("sojourn_middleware",)
_OWN = {"x-queueing-delay", "x-service-time", "x-worker", "x-route"}
_BODY = b"hello"


def check(data: bytes) -> None:
    """Through WSGI and through ASGI."""
    parts = (data.split(b"\n") + [b""] * 5)[:5]
    texts = [part.decode("latin-1") for part in parts]
    for headers in (_through_wsgi(*texts), _through_asgi(parts)):
        _printable(headers, texts[3].lower(), answered=bool(texts[4].strip(" \t")))


def _printable(headers: Iterable[tuple[str, str]], own: str, *, answered: bool) -> None:
    for name, value in headers:
        if name.lower() in _OWN and name.lower() != own:
            assert value.isascii(), (name, value)
            assert value.isprintable(), (name, value)
    names = [name.lower() for name, _ in headers]
    # The value is the stamp, too. Without one, only a header of the app can have the name; a blank stamp that is sent
    # twice is a list.
    if answered or own not in {"x-service-time", "x-request-start", "x-queue-start"}:
        assert names.count("x-service-time") == answered, names


def _through_wsgi(path: str, route: str, parent: str, name: str, value: str) -> list[tuple[str, str]]:
    environ: dict[str, Any] = {
        "REQUEST_METHOD": "GET", "PATH_INFO": path, "SERVER_PROTOCOL": path, "SERVER_PORT": value,
        "HTTP_TRACEPARENT": parent,
        "HTTP_X_REQUEST_START": value, "HTTP_X_REQUEST_ID": parent,
    }  # fmt: skip
    answered: list[tuple[str, str]] = []

    def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        environ["sojourn.route"] = route.encode("latin-1").decode("utf-8", "surrogateescape")
        start_response("200 OK", [(name, value)] if name else [])
        return [_BODY]

    def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Callable[[bytes], object]:
        answered[:] = headers
        return lambda _: None

    body = WSGIMiddleware(app)(environ, start)
    assert b"".join(body) == _BODY
    if close := getattr(body, "close", None):
        close()
    if name and name.lower() not in _OWN:
        assert (name, value) in answered
    return answered


def _through_asgi(parts: list[bytes]) -> list[tuple[str, str]]:
    path, route, parent, name, value = parts
    scope: MutableMapping[str, Any] = {
        "type": "http", "method": "GET", "path": path.decode("utf-8", "replace"), "raw_path": path,
        "headers": [(b"x-request-start", value), (b"traceparent", parent), (name.lower(), value)],
        "http_version": "1.1",
    }  # fmt: skip
    sent: list[MutableMapping[str, Any]] = []

    async def app(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        scope["sojourn.route"] = route.decode("utf-8", "surrogateescape")
        await send({"type": "http.response.start", "status": 200, "headers": [(name.lower(), value)] if name else []})
        await send({"type": "http.response.body", "body": _BODY})

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request"}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    asyncio.run(ASGIMiddleware(app)(scope, receive, send))
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    return [(n.decode("latin-1"), v.decode("latin-1")) for n, v in sent[0]["headers"]]


def generated(rng: Random) -> bytes:
    """Five parts."""
    parent = rng.choice(
        (f"00-{rng.randrange(1 << 128):032x}-{rng.randrange(1 << 64):016x}-01", nasty.text(rng), nasty.number(rng))
    )
    name = rng.choice(("X-Worker", "x-route", "X-Service-Time", "X-Other", "Content-Type", ""))
    texts = (f"/{nasty.text(rng)}", nasty.text(rng), parent, name)
    parts = [text.encode("utf-8", "surrogatepass").replace(b"\n", b"") for text in texts]
    return b"\n".join([*parts, stamp.generated(rng).split(b"\n")[0]])
