"""Answer only the page itself: a loopback host, the same origin, and for data the token of the first address."""

from __future__ import annotations

import hmac
import re
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
_HOST = re.compile(rf"({'|'.join(map(re.escape, HOSTS))})(:[0-9]{{1,5}})?")
OWN_SITES = ("same-origin", "none")  # of Sec-Fetch-Site: the page itself, and an address that the user entered
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
        host, length = headers.get("host", ""), headers.get("content-length", "0")
        origin = headers.get("origin", f"http://{host}")
        is_local = _HOST.fullmatch(host) is not None
        is_own = origin == f"http://{host}" and headers.get("sec-fetch-site", "same-origin") in OWN_SITES
        is_short = length.isdigit() and int(length) <= LARGEST and "transfer-encoding" not in headers
        token = headers.get(HEADER, "").encode("utf-8", "replace")
        is_allowed = not scope["path"].startswith(DATA) or hmac.compare_digest(token, self._token)
        refusals = (
            (is_local, HTTPStatus.MISDIRECTED_REQUEST, f"the host is not one of {', '.join(HOSTS)}"),
            (is_own, HTTPStatus.FORBIDDEN, "requests of another site are refused"),
            (
                scope["method"] in METHODS,
                HTTPStatus.METHOD_NOT_ALLOWED,
                f"the method is not one of {', '.join(METHODS)}",
            ),
            (is_short, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body is longer than {LARGEST} bytes"),
            (is_allowed, HTTPStatus.UNAUTHORIZED, "the token is wrong: open the address that the command printed"),
        )
        return next(((status, reason) for passes, status, reason in refusals if not passes), (HTTPStatus.OK, ""))
