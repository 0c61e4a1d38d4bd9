"""Minimal apps and the cost of calling them: the base against which a middleware is measured."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Any

HEADERS = {
    "host": "shop.example",
    "user-agent": "Mozilla/5.0 (X11; Linux x86_64) Chrome/130",
    "accept": "text/html,application/json;q=0.9",
    "accept-encoding": "gzip, br",
    "x-request-id": "4bf92f3577b34da6a3ce929d0e0e4736",
    "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
}
ANSWER = [("Content-Type", "text/plain"), ("Content-Length", "3")]


def wsgi_app(_environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answer with three bytes."""
    start_response("200 OK", list(ANSWER))
    return [b"ok\n"]


async def asgi_app(_scope: Any, _receive: Any, send: Any) -> None:
    """Answer with three bytes."""
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"3")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"ok\n"})


def _headers(more: int) -> dict[str, str]:
    stamp = {"x-request-start": f"t={time.time():.3f}"}
    return {**HEADERS, **{f"x-more-{number}": "some value" for number in range(more)}, **stamp}


def _request_environ(more: int) -> dict[str, Any]:
    return {
        "REQUEST_METHOD": "GET", "SCRIPT_NAME": "", "PATH_INFO": "/items/12345", "QUERY_STRING": "color=red",
        "SERVER_NAME": "127.0.0.1", "SERVER_PORT": "8000", "SERVER_PROTOCOL": "HTTP/1.1", "REMOTE_ADDR": "127.0.0.1",
        "wsgi.url_scheme": "http", "wsgi.multithread": False,
        **{"HTTP_" + name.upper().replace("-", "_"): value for name, value in _headers(more).items()},
    }  # fmt: skip


def _request_scope(more: int) -> dict[str, Any]:
    return {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
        "path": "/items/12345", "raw_path": b"/items/12345", "query_string": b"color=red", "root_path": "",
        "server": ("127.0.0.1", 8000), "client": ("127.0.0.1", 40000),
        "headers": [(name.encode(), value.encode()) for name, value in _headers(more).items()],
    }  # fmt: skip


def wsgi_seconds(app: Callable[..., Any], calls: int, more: int = 0) -> float:
    """Return the processor time of a call (s); the requests have `more` headers beyond the usual seven."""
    environs = [_request_environ(more) for _ in range(calls)]

    def start_response(_status: str, _headers: list[tuple[str, str]], _exc_info: Any = None) -> None:
        pass

    begin = time.thread_time()
    for environ in environs:
        body = app(environ, start_response)
        for _ in body:
            pass
        if hasattr(body, "close"):
            body.close()
    return (time.thread_time() - begin) / calls


def asgi_seconds(app: Callable[..., Any], calls: int, more: int = 0) -> float:
    """Return the processor time of a call (s); the requests have `more` headers beyond the usual seven."""
    scopes = [_request_scope(more) for _ in range(calls)]

    async def send(_message: Any) -> None:
        pass

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def call_all() -> float:
        begin = time.thread_time()
        for scope in scopes:
            await app(scope, receive, send)
        return (time.thread_time() - begin) / calls

    return asyncio.run(call_all())
