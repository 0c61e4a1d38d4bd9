"""A real upstream on a real socket that does exactly what a test tells it, and remembers what it was sent."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self


@dataclass
class Request:
    """One request as it came over the wire."""

    line: bytes
    headers: list[tuple[str, bytes]]
    body: bytes = b""

    def values(self, name: str) -> list[str]:
        return [value.decode("latin-1") for key, value in self.headers if key == name.lower()]

    def value(self, name: str) -> str | None:
        values = self.values(name)
        return values[0] if values else None

    @property
    def path(self) -> str:
        return self.line.split(b" ")[1].decode("latin-1")


def read_request(connection: socket.socket) -> Request | None:
    """The next request of the connection with its body (by Content-Length); None when it was closed."""
    data = b""
    while b"\r\n\r\n" not in data:
        part = connection.recv(65536)
        if not part:
            return None
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    line, *rest = head.split(b"\r\n")
    pairs = [one.partition(b":") for one in rest]
    request = Request(line, [(key.decode("latin-1").lower(), value.strip()) for key, _, value in pairs])
    wanted = int(request.value("content-length") or 0)
    while len(body) < wanted:
        part = connection.recv(65536)
        if not part:
            return None
        body += part
    request.body = body
    return request


Answer = Callable[[socket.socket, Request], None]


def answer_with(headers: list[tuple[str, str]] | None = None, body: bytes = b"ok", status: str = "200 OK") -> Answer:
    """An answer that sends this at once."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in headers or []]
    data = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body

    def answer(connection: socket.socket, request: Request) -> None:
        connection.sendall(data)

    return answer


@dataclass
class Upstream:
    """Listens on a free loopback port; every request is recorded and then answered by `answer` in its own thread."""

    answer: Answer = field(default_factory=answer_with)

    def __post_init__(self) -> None:
        self.requests: list[Request] = []
        # Answers that hold the worker wait on this, so that a test always ends.
        self.released = threading.Event()
        self._connections: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        # A client that goes away in the middle is what some tests are about.
        with connection, contextlib.suppress(OSError):
            request = read_request(connection)
            if request is not None:
                self.requests.append(request)
                self.answer(connection, request)

    def close(self) -> None:
        """Stops listening and ends every connection; afterwards connects are refused."""
        self.released.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in [self._acceptor, *self._threads]:
            thread.join(timeout=10)
            assert not thread.is_alive()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
