"""One view of a request for both interfaces, with the template of its route, such as ``/users/{id}``."""

from __future__ import annotations

import re
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, Protocol
from urllib.parse import quote

from .stamp import STAMP_HEADERS

_ENVIRON_KEYS = tuple("HTTP_" + name.upper().replace("-", "_") for name in STAMP_HEADERS)
_SCOPE_NAMES = {name.lower().encode("ascii"): number for number, name in enumerate(STAMP_HEADERS)}
_LENGTHS = frozenset(map(len, STAMP_HEADERS))
# What a path may hold unescaped (RFC 3986, section 3.3), and the escapes of one that still is as it was sent.
_PATH_SAFE = "/!$&'()*+,;=:@-._~"


class Request(Protocol):
    """The properties of a request for the measurements and the span."""

    def stamp_values(self) -> Sequence[Sequence[str]]:
        """Return every value of each of `STAMP_HEADERS`, in that order."""

    def header(self, name: str) -> str | None:
        """Return the value of a request header by its lower-case name; None if absent."""

    def route(self) -> str | None:
        """Return the route's template, once the framework has matched it."""

    @property
    def multithread(self) -> bool:
        """Whether other threads of this process serve requests at the same time."""

    @property
    def method(self) -> str:
        """The method, as it was sent."""

    @property
    def path(self) -> str:
        """The path, percent-encoded, without the query."""

    @property
    def scheme(self) -> str:
        """``http`` or ``https``, as the server sees it."""

    @property
    def protocol_version(self) -> str:
        """The version: ``1.0``, ``1.1``, ``2`` …."""

    @property
    def server(self) -> tuple[str, int | None]:
        """The address and port the server listens on; an empty address when unknown."""


class EnvironRequest:
    """A request that came through WSGI."""

    __slots__ = ("environ",)

    def __init__(self, environ: Mapping[str, Any]) -> None:
        self.environ = environ

    def stamp_values(self) -> Sequence[Sequence[str]]:
        """See `Request`. A server joins repeated headers with a comma before WSGI sees them."""
        get = self.environ.get
        return [() if (value := get(key)) is None else (value,) for key in _ENVIRON_KEYS]

    def header(self, name: str) -> str | None:
        """See `Request`."""
        value = self.environ.get("HTTP_" + name.upper().replace("-", "_"))
        return None if value is None else str(value)

    def route(self) -> str | None:
        """Return the value that the app set as ``sojourn.route``, or the route that Flask matched.

        Werkzeug leaves its request in the environ, and Flask's request knows the rule; nothing is imported for
        this.
        """
        route = self.environ.get("sojourn.route")
        if route:
            return str(route)
        request = self.environ.get("werkzeug.request")
        if request is None:
            return None
        template = getattr(getattr(request, "url_rule", None), "rule", None)
        return str(template) if template else None

    @property
    def multithread(self) -> bool:
        """See `Request`."""
        return bool(self.environ.get("wsgi.multithread"))

    @property
    def method(self) -> str:
        """See `Request`."""
        return str(self.environ.get("REQUEST_METHOD", ""))

    @property
    def path(self) -> str:
        """See `Request`."""
        path = str(self.environ.get("SCRIPT_NAME", "")) + str(self.environ.get("PATH_INFO", ""))
        # PEP 3333 passes bytes decoded as latin-1.
        return quote(path.encode("latin-1", "replace"), safe=_PATH_SAFE) or "/"

    @property
    def scheme(self) -> str:
        """See `Request`."""
        return str(self.environ.get("wsgi.url_scheme", "http"))

    @property
    def protocol_version(self) -> str:
        """See `Request`."""
        return str(self.environ.get("SERVER_PROTOCOL", "")).rpartition("/")[2]

    @property
    def server(self) -> tuple[str, int | None]:
        """See `Request`."""
        port = str(self.environ.get("SERVER_PORT", ""))
        return str(self.environ.get("SERVER_NAME", "")), int(port) if port.isdecimal() else None


class ScopeRequest:
    """A request that came through ASGI."""

    __slots__ = ("_outer_root_path", "scope")

    multithread = False  # One event loop per process: while it is busy, the process serves no other request.

    def __init__(self, scope: MutableMapping[str, Any]) -> None:
        self.scope = scope
        self._outer_root_path = str(scope.get("root_path") or "")

    def stamp_values(self) -> Sequence[Sequence[str]]:
        """See `Request`. Repeated headers arrive as separate entries."""
        values: list[list[str]] = [[] for _ in _SCOPE_NAMES]
        for name, value in self.scope.get("headers", ()):
            # Most names differ in length, which is the cheapest check.
            if len(name) in _LENGTHS:
                number = _SCOPE_NAMES.get(name.lower())
                if number is not None:
                    values[number].append(value.decode("latin-1"))
        return values

    def header(self, name: str) -> str | None:
        """See `Request`."""
        encoded = name.encode("latin-1")
        for key, value in self.scope.get("headers", ()):
            if key.lower() == encoded:
                text: str = value.decode("latin-1")
                return text
        return None

    def route(self) -> str | None:
        """Return the value that the app set as ``sojourn.route``, or the template that Starlette or FastAPI matched.

        A mounted application knows its routes without the prefix of the mount; the prefix is what the root path
        gained since the middleware saw the request, with names for the values of parameters.
        """
        scope = self.scope
        chosen = scope.get("sojourn.route")
        if chosen:
            return str(chosen)
        route = scope.get("route")
        if route is None:
            return None
        template = getattr(route, "path", None)
        # FastAPI keeps the route as its router declared it, and the path with all prefixes beside it.
        own = scope.get("fastapi")
        included = own.get("effective_route_context") if isinstance(own, Mapping) else None
        if included is not None and getattr(included, "original_route", None) is route:
            template = getattr(included, "path", template)
        if not isinstance(template, str):
            return None
        root_path = str(scope.get("root_path") or "")
        outer = self._outer_root_path
        prefix = root_path[len(outer) :] if root_path.startswith(outer) else ""
        return _mount(prefix, template, scope.get("path_params")) + template or None

    @property
    def method(self) -> str:
        """See `Request`. A WebSocket handshake is a GET; its scope has no method."""
        return str(self.scope.get("method", "GET"))

    @property
    def path(self) -> str:
        """See `Request`."""
        raw = self.scope.get("raw_path")
        if raw:
            return quote(raw.partition(b"?")[0], safe=_PATH_SAFE + "%")
        return quote(str(self.scope.get("path", "")), safe=_PATH_SAFE, errors="replace") or "/"

    @property
    def scheme(self) -> str:
        """See `Request`."""
        return str(self.scope.get("scheme", "http"))

    @property
    def protocol_version(self) -> str:
        """See `Request`."""
        return str(self.scope.get("http_version", ""))

    @property
    def server(self) -> tuple[str, int | None]:
        """See `Request`. The port is None when the server listens on a Unix socket."""
        server = self.scope.get("server") or ("", None)
        return str(server[0]), server[1]


def _mount(prefix: str, template: str, values: Any) -> str:
    """Return the template of the path of the mounts; empty if it has values that are not as in the path (/07)."""
    if not prefix:
        return ""
    own = {name.partition(":")[0] for name in re.findall(r"\{([^}]*)\}", template)}
    outer = {name: value for name, value in values.items() if name not in own} if isinstance(values, Mapping) else {}
    path = prefix + "/"
    for name, value in reversed(outer.items()):
        before, slash, after = path.rpartition(f"/{value}/")
        if not slash:
            return ""
        path = f"{before}/{{{name}}}/{after}"
    return path[:-1]
