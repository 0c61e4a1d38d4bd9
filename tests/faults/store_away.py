"""Servers that are no good: one that says nothing, one that answers anything, and a proxy that cuts what passes."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def served(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """A port at which every connection is given to ``answer``, in a thread of its own."""
    listener = socket.create_server(("127.0.0.1", 0))
    open_ones: list[socket.socket] = [listener]

    def one(connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            answer(connection)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection = listener.accept()[0]
                open_ones.append(connection)
                threading.Thread(target=one, args=(connection,), daemon=True).start()

    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    try:
        yield listener.getsockname()[1]
    finally:
        for each in open_ones:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        accepting.join(10)


def silent(connection: socket.socket) -> None:
    """Take what comes and say nothing."""
    while connection.recv(65_536):
        pass


def answer_of(status: str, body: str, code: int | None = None) -> bytes:
    """An answer as a server of ClickHouse gives it; ``code``: of the error."""
    header = "" if code is None else f"X-ClickHouse-Exception-Code: {code}\r\n"
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{header}\r\n{body}".encode()


def saying(what: bytes) -> Callable[[socket.socket], None]:
    """Answer every request with this."""

    def answer(connection: socket.socket) -> None:
        while connection.recv(1 << 20):
            connection.sendall(what)

    return answer


class Cutter:
    """A proxy before a server at ``port``: once armed it passes so many bytes more, and then closes the connection.

    Attributes:
        cuts: connections closed so far.
        denied: the answer that an INSERT gets in place of the server's; None: the server's.
    """

    def __init__(self, port: int) -> None:
        self.cuts = 0
        self.denied: bytes | None = None
        self._port = port
        self._left: dict[str, int | None] = {"requests": None, "answered": None}
        self._once = True

    def cut(self, *, requests: int | None = None, answered: int | None = None, once: bool = True) -> None:
        """Cut after so many bytes to the server, or from it; ``once``, or every connection from then on."""
        self._left, self._once = {"requests": requests, "answered": answered}, once

    def __call__(self, client: socket.socket) -> None:
        with socket.create_connection(("127.0.0.1", self._port)) as server:
            back = threading.Thread(target=self._pass, args=(server, client, "answered"), daemon=True)
            back.start()
            self._pass(client, server, "requests")
            back.join(10)

    def _pass(self, source: socket.socket, sink: socket.socket, way: str) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                if way == "requests" and self.denied is not None and b"INSERT" in data:
                    source.sendall(self.denied)
                    break
                left = self._left[way]
                if left is not None and len(data) >= left:
                    sink.sendall(data[:left])
                    self.cuts += 1
                    self._left[way] = None if self._once else 0
                    break
                if left is not None:
                    self._left[way] = left - len(data)
                sink.sendall(data)
        for each in (source, sink):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
