"""Answer only the page itself: a loopback host, the same origin, and for data the token of the first address."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from http import HTTPStatus
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

DATA = "/api/"
HEADER = "X-Sojourn-Token"
HOSTS = ("127.0.0.1", "localhost", "[::1]")
METHODS = ("GET", "HEAD", "POST")
LARGEST = 100_000  # bytes of a request's body
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def new_token() -> str:
    """Return a token that cannot be guessed."""
    return secrets.token_urlsafe(24)


class Guard:
    """An application that refuses what does not come from its own page.

    Args:
        application: what answers the other requests.
        token: that requests for data must have in ``HEADER``.
    """

    def __init__(self, application: Callable[[Scope, Receive, Send], Awaitable[None]], token: str) -> None:
        self._application = application
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._application(scope, receive, send)
            return

        async def sent(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        status, reason = self._refusal(scope)
        if reason:
            await PlainTextResponse(f"{reason}\n", status)(scope, receive, sent)
        else:
            await self._application(scope, receive, sent)

    def _refusal(self, scope: Scope) -> tuple[int, str]:
        """Return the status and the reason of a refusal; an empty reason: there is none."""
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if host.rpartition(":")[0] not in HOSTS and host not in HOSTS:
            return HTTPStatus.MISDIRECTED_REQUEST, f"the host is not one of {', '.join(HOSTS)}"
        if headers.get("origin", f"http://{host}") != f"http://{host}":
            return HTTPStatus.FORBIDDEN, "requests of another origin are refused"
        if headers.get("sec-fetch-site", "same-origin") not in {"same-origin", "none"}:
            return HTTPStatus.FORBIDDEN, "requests of another site are refused"
        if scope["method"] not in METHODS:
            return HTTPStatus.METHOD_NOT_ALLOWED, "the method is not GET, HEAD or POST"
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > LARGEST or "transfer-encoding" in headers:
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body is longer than {LARGEST} bytes"
        if scope["path"].startswith(DATA):
            token = headers.get(HEADER, "").encode("utf-8", "replace")
            if not hmac.compare_digest(token, self._token):
                return HTTPStatus.UNAUTHORIZED, "the token is missing or wrong: open the address that the command printed"
        return HTTPStatus.OK, ""
