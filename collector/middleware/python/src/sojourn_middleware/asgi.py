"""ASGI 3 middleware that answers with the request's queueing delay and service time.

Queueing delay: from the proxy's stamp to the first turn of the event loop that is given to the request, so
a loop that is busy with others counts as a queue. Service time: from there until ``http.response.start`` is
sent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from .answer import QUEUEING_DELAY, REPLACED, ROUTE, SERVICE_TIME, WORKER
from .exchange import Exchange, Measurement, Options
from .in_progress import is_event_stream
from .request import ScopeRequest
from .timing import current_timing
from .wsgi import MEASURED

if TYPE_CHECKING:
    from typing import Unpack

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]

# Names of headers that the answer may replace: the only ones of the app that are checked.
_OURS = frozenset(name.encode("ascii") for name in REPLACED)
_BYTES = {name: name.encode("ascii").lower() for name in (QUEUEING_DELAY, SERVICE_TIME, WORKER, ROUTE)}

# What ends an HTTP response: its last body message, or one that leaves the rest to the server.
_LAST = frozenset(("http.response.body", "http.response.pathsend", "http.response.zerocopysend"))


class ASGIMiddleware:
    """Measure every HTTP request and WebSocket handshake of an ASGI app, with `Options`."""

    def __init__(self, app: ASGIApp, **options: Unpack[Options]) -> None:
        self.app = app
        self.measurement = Measurement(**options)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection of any type."""
        if scope["type"] not in {"http", "websocket"} or MEASURED in scope:
            await self.app(scope, receive, send)
            return
        exchange = self.measurement.begin(ScopeRequest(scope), scope)
        if exchange is None:
            await self.app(scope, receive, send)
            return
        scope[MEASURED] = True
        if exchange.in_progress:
            exchange.observe_threads()
        token = current_timing.set(exchange.timing)
        detach = exchange.span.attach() if exchange.span is not None else None
        try:
            await self.app(scope, receive, _measured_send(exchange, send))
        except BaseException as error:
            # Cancellation too: a server cancels the task when the client has gone.
            exchange.finish(error)
            raise
        finally:
            if detach is not None:
                detach()
            # A discarded task is closed in another context than its own.
            try:  # noqa: SIM105  (contextlib's `suppress` takes half a microsecond)
                current_timing.reset(token)
            except ValueError:
                pass
        exchange.finish()


def _measured_send(exchange: Exchange, send: Send) -> Send:
    trailers = False

    async def measured_send(message: Message) -> None:
        nonlocal trailers
        kind = message["type"]
        if kind == "http.response.start":
            trailers = bool(message.get("trailers"))
            message = _with_answer(exchange, message, message.get("status"))
        elif kind == "websocket.http.response.start":
            message = _with_answer(exchange, message, message.get("status"))
        elif kind == "websocket.accept":
            message = _with_answer(exchange, message, 101)
        await send(message)
        if exchange.in_progress and (
            kind == "websocket.accept" or (kind == "http.response.start" and _has_events(message))
        ):
            exchange.leave()
        if kind in _LAST:
            if not trailers and not message.get("more_body"):
                exchange.finish()
        elif kind == "http.response.trailers" and not message.get("more_trailers"):
            exchange.finish()

    return measured_send


def _has_events(message: Message) -> bool:
    """Return whether the response is a stream of server-sent events."""
    with suppress(TypeError, ValueError):  # Headers that are not valid in ASGI, which the server has sent all the same.
        for name, value in message.get("headers") or ():
            if name == b"content-type":
                return is_event_stream(bytes(value).decode("latin-1"))
    return False


def _with_answer(exchange: Exchange, message: Message, status: int | None) -> Message:
    """Return a copy of the message with the headers added; the app's message remains unchanged."""
    others: list[tuple[bytes, bytes]] = []
    texts: list[tuple[str, str]] = []
    try:
        for name, value in message.get("headers") or ():
            # ASGI wants header names in lower case.
            lowered = bytes(name).lower()
            if lowered in _OURS:
                texts.append((lowered.decode("ascii"), bytes(value).decode("latin-1")))
            else:
                others.append((lowered, bytes(value)))
    except (TypeError, ValueError):
        # Not valid in ASGI; the server decides whether to accept it.
        exchange.headers_left(status, [])
        return message
    for title, text in exchange.headers_left(status, texts):
        others.append((_BYTES.get(title) or title.encode("ascii").lower(), text.encode("latin-1")))
    return {**message, "headers": others}
