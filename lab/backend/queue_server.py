"""A WSGI server whose queue is its own, so that its order can be chosen.

gunicorn's sync workers take connections from the kernel's accept queue, which is first in, first out. This server
accepts at once and keeps whole requests in its own queue, from which the workers (threads) take them by a discipline
(disciplines.py). Everything else is as with gunicorn sync: a request holds one worker from its start to the end of its
answer, one connection per request, and a client that has gone is noticed only when the answer is written.

    python queue_server.py app:application --port 8000 --workers 2 --discipline lifo

    acceptor (one thread, epoll)     accepts, reads head and body of many connections concurrently, queues them
    queue                            waiting requests
    workers (threads)                take by discipline, run the app, answer, close

Rejected (503): by the discipline, and beyond `--capacity` waiting places. Bounds: MOST_CONNECTIONS at once (further
ones stay with the kernel), a request's head and body (http_request.py), READ_SECONDS to send it.
SIGTERM and SIGINT: no more connections; queued requests are served, for at most GRACE seconds.
"""

from __future__ import annotations

import argparse
import importlib
import resource
import selectors
import signal
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from wsgiref.handlers import SimpleHandler

from disciplines import NAMES, Discipline, Rules, discipline
from http_request import BadRequestError, Head, environ_of, head_in

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

MOST_CONNECTIONS = 4096
READ_SECONDS = 30.0
WRITE_SECONDS = 30.0
GRACE = 30.0
CHUNK = 65_536
PAUSE = 0.05
ACCEPTED_AT_ONCE = 64


@dataclass(eq=False)
class Visit:
    """A whole request that waits, or is served. Instants in monotonic seconds.

    Attributes:
        connection: the socket to answer on.
        head, body: of the request.
        client: address of the peer.
        accepted: when its connection was accepted.
        arrived: when it was complete and joined the queue.
    """

    connection: socket.socket
    head: Head
    body: bytes
    client: str
    accepted: float
    arrived: float

    def gone(self) -> bool:
        """Return whether the client has closed its side: nginx does after its client left or its timeout expired."""
        try:
            return self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True


class Line:
    """The waiting requests, shared by the acceptor and the workers."""

    def __init__(self, take: Discipline[Visit], capacity: int | None = None, last: str | None = None) -> None:
        self._take = take
        self._capacity = capacity
        self._last = last
        self._line: deque[Visit] = deque()
        self._patient: deque[Visit] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._idle = 0

    def __len__(self) -> int:
        return len(self._line) + len(self._patient)

    def put(self, visit: Visit) -> bool:
        """Return whether there was a place; with a free worker none is needed."""
        with self._changed:
            if self._last is not None and visit.head.path == self._last:
                # A probe checks whether the queue is empty: under lifo it would overtake all other requests.
                self._patient.append(visit)
            elif self._capacity is not None and len(self._line) >= self._capacity + self._idle:
                return False
            else:
                self._line.append(visit)
            self._changed.notify()
            return True

    def next_request(self) -> tuple[Visit | None, list[Visit]] | None:
        """Return (next request, rejected requests) as soon as a request waits; None once closed and empty."""
        with self._changed:
            self._idle += 1
            try:
                while not self._line and not self._patient:
                    if self._closed:
                        return None
                    self._changed.wait()
            finally:
                self._idle -= 1
            if not self._line:
                return self._patient.popleft(), []
            return self._take(self._line, time.monotonic())

    def close(self) -> None:
        """Accept no more requests: workers end when the queue is empty."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


class Answer(SimpleHandler):
    """Runs the app for one visit and writes its response; a broken connection ends it quietly."""

    http_version = "1.1"
    server_software = "queue_server"

    def send_preamble(self) -> None:
        """Write the status and headers; without a length, the end of the connection ends the response."""
        super().send_preamble()
        self._write(b"Connection: close\r\n")


def serve(visit: Visit, app: WSGIApplication, server: tuple[str, int]) -> None:
    """Run the app for a visit, write its response, and close the connection."""
    connection = visit.connection
    try:
        # From here on a worker writes: it blocks, but not on a client that has stopped to read.
        connection.settimeout(WRITE_SECONDS)
        environ = environ_of(visit.head, visit.body, server=server, client=visit.client)
        environ["sojourn.accepted"], environ["sojourn.in_line"] = visit.accepted, visit.arrived
        with connection.makefile("wb") as out:
            handler = Answer(environ["wsgi.input"], out, sys.stderr, environ, multithread=True, multiprocess=False)
            handler.run(app)
    except OSError:
        pass  # the client has gone, and its buffered answer is discarded
    finally:
        close(connection)


def close(connection: socket.socket) -> None:
    """Close a connection such that what was written still arrives."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_WR)
    connection.close()


def refuse(connection: socket.socket, status: str) -> None:
    """Respond with a bare status if that needs no waiting, and close."""
    text = f"{status}\n".encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(text)}\r\nConnection: close\r\n\r\n"
    with suppress(OSError):
        connection.setblocking(False)
        connection.send(head.encode() + text)
    close(connection)


def work(line: Line, app: WSGIApplication, server: tuple[str, int]) -> None:
    """Serve one request after another until the queue is closed."""
    while (item := line.next_request()) is not None:
        visit, turned_away = item
        for each in turned_away:
            refuse(each.connection, "503 Service Unavailable")
        if visit is not None:
            serve(visit, app, server)


class Acceptor:
    """Accepts and reads many connections concurrently: a slow sender delays no other request."""

    def __init__(self, listener: socket.socket, line: Line) -> None:
        self._listener = listener
        self._line = line
        self._selector = selectors.DefaultSelector()
        # In the order they came, so the first is the first whose time is over.
        self._reading: dict[socket.socket, tuple[bytearray, str, float]] = {}
        self._accepting = False
        self._again = 0.0
        listener.setblocking(False)

    def run(self, stopped: Callable[[], bool], wake: socket.socket) -> None:
        """Accept until `stopped()`, which is checked when `wake` becomes readable; then close the listener."""
        self._selector.register(wake, selectors.EVENT_READ)
        try:
            while not stopped():
                self._accept_again()
                for key, _ in self._selector.select(PAUSE if not self._accepting else 1.0):
                    if key.fileobj is self._listener:
                        self._accept()
                    elif isinstance(key.fileobj, socket.socket) and key.fileobj is not wake:
                        self._read(key.fileobj)
                self._give_up_on_slow()
        finally:
            self._listener.close()
            for connection in list(self._reading):
                self._forget(connection)
                close(connection)
            self._selector.close()

    def _accept_again(self) -> None:
        if not self._accepting and time.monotonic() >= self._again:
            self._selector.register(self._listener, selectors.EVENT_READ)
            self._accepting = True

    def _pause(self) -> None:
        # Too much is held, or no file is free: the kernel keeps new connections. Readable all the time, the listener
        # would turn this loop into a busy one.
        self._selector.unregister(self._listener)
        self._accepting = False
        self._again = time.monotonic() + PAUSE

    def _accept(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            if len(self._reading) + len(self._line) >= MOST_CONNECTIONS:
                self._pause()
                return
            try:
                connection, address = self._listener.accept()
            except (BlockingIOError, ConnectionError):
                return
            except OSError as error:
                sys.stderr.write(f"queue_server: accept: {error}\n")
                self._pause()
                return
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._reading[connection] = bytearray(), str(address[0]), time.monotonic()
            self._selector.register(connection, selectors.EVENT_READ)

    def _read(self, connection: socket.socket) -> None:
        received, client, accepted = self._reading[connection]
        try:
            piece = connection.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        received += piece
        try:
            heads = head_in(received)
        except BadRequestError as error:
            self._forget(connection)
            refuse(connection, error.status)
            return
        if heads is not None and len(received) >= heads[1] + heads[2]:
            head, begin, length = heads
            self._forget(connection)
            body = bytes(received[begin : begin + length])
            visit = Visit(connection, head, body, client, accepted, time.monotonic())
            if not self._line.put(visit):
                refuse(connection, "503 Service Unavailable")
        elif not piece:
            self._forget(connection)
            connection.close()

    def _give_up_on_slow(self) -> None:
        over = time.monotonic() - READ_SECONDS
        while self._reading:
            connection, (_, _, accepted) = next(iter(self._reading.items()))
            if accepted > over:
                return
            self._forget(connection)
            refuse(connection, "408 Request Timeout")

    def _forget(self, connection: socket.socket) -> None:
        del self._reading[connection]
        self._selector.unregister(connection)


def run(listener: socket.socket, app: WSGIApplication, line: Line, workers: int) -> None:
    """Serve until SIGTERM or SIGINT, then queued requests; return when they are served or GRACE is over."""
    server = listener.getsockname()[:2]
    stop = threading.Event()
    wake, waker = socket.socketpair()
    waker.setblocking(False)
    signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda *_: stop.set())
    # Daemons: a service that outlasts the grace does not keep the process.
    threads = [threading.Thread(target=work, args=(line, app, server), daemon=True) for _ in range(workers)]
    for thread in threads:
        thread.start()
    Acceptor(listener, line).run(stop.is_set, wake)
    line.close()
    end = time.monotonic() + GRACE
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))


def app_of(name: str) -> WSGIApplication:
    """Return the WSGI callable `module:name`."""
    module, _, attribute = name.partition(":")
    apps: Any = getattr(importlib.import_module(module), attribute or "application")
    app: WSGIApplication = apps
    return app


def main(arguments: list[str]) -> None:
    """Serve with the command line's arguments."""
    parser = argparse.ArgumentParser(description="A WSGI server whose queue has a discipline.")
    parser.add_argument("app", help="module:callable")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--fd", type=int, help="a listening socket, inherited")
    where.add_argument("--port", type=int, help="of --host")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on, with --port")
    parser.add_argument("--backlog", type=int, default=511, help="with --port")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--discipline", choices=NAMES, default="fifo")
    parser.add_argument("--capacity", type=int, help="waiting places; one more is answered with 503")
    parser.add_argument("--last", metavar="PATH", help="requests for this path are served when no other request waits")
    parser.add_argument("--timeout", type=float, help="s after which clients give up, for deadline")
    parser.add_argument("--deadline-margin", type=float, default=Rules.deadline_margin)
    parser.add_argument("--codel-target", type=float, default=Rules.codel_target)
    parser.add_argument("--codel-interval", type=float, default=Rules.codel_interval)
    parser.add_argument("--lifo-threshold", type=int, default=Rules.lifo_threshold)
    parser.add_argument("--calm-timeout", type=float, default=Rules.calm_timeout)
    parser.add_argument("--busy-timeout", type=float, default=Rules.busy_timeout)
    options = parser.parse_args(arguments)
    rules = Rules(
        timeout=options.timeout,
        deadline_margin=options.deadline_margin,
        codel_target=options.codel_target,
        codel_interval=options.codel_interval,
        lifo_threshold=options.lifo_threshold,
        calm_timeout=options.calm_timeout,
        busy_timeout=options.busy_timeout,
    )
    # A file for each connection; the soft limit is often lower than what is held here.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = MOST_CONNECTIONS + 256 if hard == resource.RLIM_INFINITY else min(MOST_CONNECTIONS + 256, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(files, resource.getrlimit(resource.RLIMIT_NOFILE)[0]), hard))
    line = Line(discipline(options.discipline, rules, Visit), options.capacity, options.last)
    if options.fd is not None:
        listener = socket.socket(fileno=options.fd)
    else:
        listener = socket.create_server((options.host, options.port), backlog=options.backlog)
    run(listener, app_of(options.app), line, options.workers)


if __name__ == "__main__":
    main(sys.argv[1:])
