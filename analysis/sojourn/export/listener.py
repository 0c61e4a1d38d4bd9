"""The HTTP server of the metrics: few connections, each for one request and for a limited time.

A file descriptor that a connection holds is one that a rotated log may need: the number of connections is a fraction of
the descriptors that the process may have. Where there are as many, a new one replaces the oldest that has sent no
request yet, so that idle connections do not keep Prometheus away.
"""

from __future__ import annotations

import re
import resource
import socket
import socketserver
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from ipaddress import ip_address
from typing import Any

from prometheus_client.exposition import choose_encoder, make_wsgi_app

from sojourn.export.exporter import Exporter
from sojourn.export.exposition import registry_of
from sojourn.export.web_config import OPTION, WebConfig
from sojourn.model.errors import SojournError

PATH = "/metrics"
MOST_CONNECTIONS = 32
SHARE_OF_DESCRIPTORS = 8  # of as many descriptors, one is for a connection
LONGEST = 30.0  # s from the begin of a connection to its end
PAUSE = 0.1  # s until a connection is accepted again after an attempt for which there was no descriptor
NATIVE_FORMAT = "application/openmetrics-text; version=2.0.0"
"""The content type that has native histograms."""
# What prometheus_client parses without an error; other parts of a header ``Accept`` are ignored.
_PARAMETER = r"(version=[012]\.0\.[0-9]|(?!version=)[a-z]+=[A-Za-z0-9._-]*)"
_ACCEPTED = re.compile(rf"\s*[a-z*]+/[a-z*+-]+\s*(;\s*{_PARAMETER}\s*)*")

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class MetricsServer:
    """An HTTP server of the metrics of an exporter, on a thread of its own; port 0 chooses a free one.

    Args:
        exporter: whose metrics are served.
        host: address to listen on.
        port: its port.
        web: TLS and passwords; None: neither.

    Attributes:
        url: of the metrics.
        warning: a sentence if other hosts reach the metrics without TLS and without a password; empty otherwise.

    Raises:
        SojournError: the address cannot be listened on.
    """

    def __init__(self, exporter: Exporter, host: str, port: int, web: WebConfig | None = None) -> None:
        web = WebConfig() if web is None else web
        server_class = _Server6 if ":" in host else _Server
        try:
            self._server = server_class((host, port), exporter, web)
        except OSError as error:
            raise SojournError(f"--listen {host}:{port}: {error.strerror or error}") from None
        address, port = self._server.server_address[:2]
        self._thread = threading.Thread(target=self._server.serve_forever, name="sojourn-metrics", daemon=True)
        self._thread.start()
        literal = f"[{host}]" if ":" in host else host
        self.url = f"{'https' if web.has_tls else 'http'}://{literal}:{port}{PATH}"
        self.warning = ""
        if not web.protects and not ip_address(str(address).partition("%")[0]).is_loopback:
            self.warning = (
                f"every host that reaches {literal}:{port} can read routes and addresses of backends: set {OPTION}"
            )

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def most_connections() -> int:
    """Return how many connections there can be at a time."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    return max(min(MOST_CONNECTIONS, descriptors // SHARE_OF_DESCRIPTORS), 1)


class _Server(socketserver.ThreadingTCPServer):
    """A server that does not wait for unfinished responses when it ends."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], exporter: Exporter, web: WebConfig) -> None:
        self.web = web
        self.applications: dict[bool, Application] = {
            native: make_wsgi_app(registry_of(exporter, native=native)) for native in (False, True)
        }
        self._most = most_connections()
        self._lock = threading.Lock()
        self._deadlines: dict[socket.socket, float] = {}  # of all connections, oldest first
        self._idle: dict[socket.socket, None] = {}  # of those, the ones without a complete request
        super().__init__(address, _Handler)

    def get_request(self) -> tuple[socket.socket, Any]:
        try:
            connection, address = super().get_request()
        except OSError:
            time.sleep(PAUSE)
            raise
        try:
            context = self.web.tls()
            if context is not None:  # the handshake is for the connection's own thread
                connection = context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        except OSError:
            connection.close()
            raise
        return connection, address

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            if len(self._deadlines) >= self._most:
                oldest = next(iter(self._idle), None)
                if oldest is None:
                    self._end(request)
                    request.close()
                    return
                self._end(oldest)
            self._deadlines[request] = time.monotonic() + LONGEST
            self._idle[request] = None
        super().process_request(request, client_address)

    def answers(self, request: socket.socket) -> None:
        """Record that a connection has sent a complete request."""
        with self._lock:
            self._idle.pop(request, None)

    def service_actions(self) -> None:
        now = time.monotonic()
        with self._lock:
            for connection in [each for each, deadline in self._deadlines.items() if deadline < now]:
                self._end(connection)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._deadlines.pop(request, None)
            self._idle.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - as in the class above
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):  # a client that is gone, whose time is over, or that speaks no TLS
            sys.stderr.write(f"metrics: an answer failed ({type(error).__name__}: {error})\n")

    def _end(self, connection: socket.socket) -> None:
        """End the reading and writing of a connection; its thread closes it."""
        self._deadlines.pop(connection, None)
        self._idle.pop(connection, None)
        with suppress(OSError):  # the client has ended it
            socket.socket.shutdown(connection, socket.SHUT_RDWR)


class _Server6(_Server):
    address_family = socket.AF_INET6


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version, sys_version = "sojourn", ""

    def setup(self) -> None:
        if isinstance(self.request, ssl.SSLSocket):
            self.request.do_handshake()
        super().setup()

    def parse_request(self) -> bool:
        parsed = super().parse_request()
        self.server.answers(self.request)
        return parsed

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        if not self.server.web.allows(self.headers.get("Authorization")):
            self._answer(HTTPStatus.UNAUTHORIZED, {"WWW-Authenticate": "Basic"})
        elif path != PATH:
            self._answer(HTTPStatus.NOT_FOUND, text=f"not found; the metrics are at {PATH}\n")
        else:
            accepted = accepted_formats(self.headers.get("Accept", ""))
            environ = {
                "REQUEST_METHOD": "GET", "PATH_INFO": path, "QUERY_STRING": query, "HTTP_ACCEPT": accepted,
                "HTTP_ACCEPT_ENCODING": self.headers.get("Accept-Encoding", ""),
            }  # fmt: skip
            # An older format has no place for native histograms.
            native = choose_encoder(accepted)[1].startswith(NATIVE_FORMAT)
            headers: dict[str, str] = {}
            body = b"".join(self.server.applications[native](environ, lambda _, pairs: headers.update(pairs)))
            self._answer(HTTPStatus.OK, headers, body)

    do_HEAD = do_GET  # noqa: N815 - the name that the class above calls

    def _refuse(self) -> None:
        self._answer(HTTPStatus.METHOD_NOT_ALLOWED, {"Allow": "GET, HEAD"})

    do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _refuse  # noqa: N815

    def _answer(
        self, status: HTTPStatus, headers: dict[str, str] | None = None, body: bytes | None = None, text: str = ""
    ) -> None:
        if body is None:
            body = (text or f"{status.phrase.lower()}\n").encode()
            headers = {"Content-Type": "text/plain; charset=utf-8", **(headers or {})}
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in the class above
        """Log no request."""


def accepted_formats(accept: str) -> str:
    """Return the parts of a header ``Accept`` that are well-formed; without one, the text format is the default."""
    return ",".join(part for part in accept.split(",") if _ACCEPTED.fullmatch(part))
