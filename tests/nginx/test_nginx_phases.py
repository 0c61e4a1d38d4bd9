"""Where the time of a request goes on a real nginx, and that the verdict names a cause only where the log shows it."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import pytest
import sojourn
from nginx_support import PROXY, app_upstream, connect, get, logged, received, request_bytes
from nginx_upstream import Answer, Request, Upstream
from sojourn.model.verdict import Verdict
from sojourn_lab.runtime.nginx import Nginx

Serve = Callable[..., Nginx]
Start = Callable[..., Upstream]
Run = Callable[[Nginx], object]

LONG = 0.7  # s: above the default objective
REQUESTS = 6
ATTEMPTS = 4
LARGE = 8 * 2**20  # bytes: more than the buffers of a socket hold


def measured(
    work: float = 0.0, *, body: bytes = b"ok", pause: float = 0.0, headers: dict[str, str] | None = None
) -> Answer:
    """Return an answer of an app with the middleware: it works, sends its headers, and its body after a pause."""

    def answer(connection: socket.socket, request: Request) -> None:
        begun = time.time()
        time.sleep(work)
        delay = begun - float((request.value("x-request-start") or f"t={begun}")[2:])
        lines = [
            "HTTP/1.1 200 OK", f"Content-Length: {len(body)}", "Connection: close", f"X-Queueing-Delay: {delay:.6f}",
            f"X-Service-Time: {time.time() - begun:.6f}", "X-Worker: 1",
            *(f"{name}: {value}" for name, value in (headers or {}).items()),
        ]  # fmt: skip
        connection.sendall("\r\n".join(lines).encode() + b"\r\n\r\n")
        time.sleep(pause)
        connection.sendall(body)

    return answer


def at_once(nginx: Nginx, run: Run = get, requests: int = REQUESTS) -> Verdict:
    """Send requests at the same time, and return the verdict on the log."""
    with ThreadPoolExecutor(requests) as pool:
        list(pool.map(lambda _: run(nginx), range(requests)))
    logged(nginx, requests)
    return sojourn.split(nginx.access_log).verdict


def named_by_conf(nginx: Nginx) -> str:
    """Return the verdict's sentence with the configuration at hand."""
    return sojourn.split(nginx.access_log, nginx=nginx.folder / "nginx.conf").verdict.sentence


def test_body_that_the_app_produces_slowly(serve: Serve, upstream: Start) -> None:
    app = upstream(measured(pause=LONG))
    verdict = at_once(serve(http=app_upstream(app.address)))
    assert verdict.cause == "body"
    assert "client" not in verdict.sentence


def test_slow_login_behind_auth_request(serve: Serve, upstream: Start) -> None:
    app, login = upstream(measured()), upstream(measured(LONG))
    server = (
        f"location / {{ auth_request /login; {PROXY} }}"
        f"location = /login {{ internal; proxy_pass http://{login.address}; }}"
    )
    nginx = serve(server, http=app_upstream(app.address))
    verdict = at_once(nginx)
    assert verdict.cause == "before"
    assert "`auth_request`" in verdict.sentence
    named = named_by_conf(nginx)
    assert "or `auth_request` (" in named
    assert "limit_req" not in named


def test_limit_with_a_delay(serve: Serve, upstream: Start) -> None:
    app = upstream(measured())
    zone = "limit_req_zone $binary_remote_addr zone=few:64k rate=2r/s;"
    server = f"location / {{ limit_req zone=few burst=20; {PROXY} }}"
    nginx = serve(server, http=app_upstream(app.address) + zone)
    verdict = at_once(nginx)
    assert verdict.cause == "before"
    assert "in requests that `limit_req` delayed" in verdict.sentence
    assert "in requests that `limit_req` (" in named_by_conf(nginx)


def test_wait_for_a_cache_that_another_request_fills(serve: Serve, upstream: Start) -> None:
    app = upstream(measured(LONG, headers={"Cache-Control": "max-age=60"}))
    server = f"location / {{ proxy_cache filled; proxy_cache_lock on; proxy_cache_valid 200 60s; {PROXY} }}"
    cache = "proxy_cache_path cache keys_zone=filled:1m;"
    nginx = serve(server, http=app_upstream(app.address) + cache)
    verdict = at_once(nginx, requests=12)
    assert len(app.requests) == 1
    assert verdict.cause == "queueing"
    assert "`proxy_cache_lock`" in verdict.sentence
    split = sojourn.split(nginx.access_log)
    # Eleven of twelve waited a second. On a busy machine nginx wakes some so late that their wait shows no step.
    assert 0.4 < split.evidence.locked["after"] < 11 / 12 + 0.01
    assert any("cache lock" in note for note in split.notes)
    assert "(`proxy_cache_lock` (" in named_by_conf(nginx)


def test_wait_in_turn_for_a_cache_that_nothing_fills(serve: Serve, upstream: Start) -> None:
    """An answer that may not be cached does not end the wait of the others: each asks the app in its turn."""
    app = upstream(measured(LONG, headers={"Cache-Control": "no-store"}))
    server = f"location / {{ proxy_cache filled; proxy_cache_lock on; {PROXY} }}"
    nginx = serve(server, http=app_upstream(app.address) + "proxy_cache_path cache keys_zone=filled:1m;")
    # A busy machine wakes some of them so late that their wait shows no step: then the cause, or a part of it, is
    # before the app.
    causes = []
    for _ in range(ATTEMPTS):
        nginx.access_log.write_text("")
        served = len(app.requests)
        causes.append(at_once(nginx, requests=4).cause)
        assert len(app.requests) == served + 4
        if causes[-1] == "queueing":
            break
    assert causes[-1] == "queueing"
    assert set(causes) <= {"queueing", "before", "mixed"}
    assert sojourn.split(nginx.access_log).evidence.locked["before"] == pytest.approx((0 + 1 + 2 + 3) / 4, rel=0.01)


@pytest.mark.parametrize("keep", ["max-age=60", "no-store"])
def test_login_in_front_of_a_cache_is_no_lock(serve: Serve, upstream: Start, keep: str) -> None:
    app, login = upstream(measured(headers={"Cache-Control": keep})), upstream(measured(LONG))
    server = (
        f"location / {{ auth_request /login; proxy_cache filled; proxy_cache_lock on; {PROXY} }}"
        f"location = /login {{ internal; proxy_pass http://{login.address}; }}"
    )
    nginx = serve(server, http=app_upstream(app.address) + "proxy_cache_path cache keys_zone=filled:1m;")
    for _ in range(4):
        get(nginx)
    logged(nginx, 4)
    verdict = sojourn.split(nginx.access_log).verdict
    assert verdict.cause in ("before", "after")
    assert not any(sojourn.split(nginx.access_log).evidence.locked.values())


def test_mirror_that_takes_longer_than_the_answer(serve: Serve, upstream: Start) -> None:
    app, copy = upstream(measured()), upstream(measured(LONG))
    server = (
        f"location / {{ mirror /copy; {PROXY} }} location = /copy {{ internal; proxy_pass http://{copy.address}; }}"
    )
    nginx = serve(server, http=app_upstream(app.address))
    verdict = at_once(nginx)
    assert verdict.cause == "after"
    assert "`mirror`" in verdict.sentence
    named = named_by_conf(nginx)
    assert "or `mirror` (" in named
    assert "slice" not in named


def test_answer_that_an_internal_redirect_replaces(serve: Serve, upstream: Start) -> None:
    app = upstream(measured(LONG, headers={"X-Accel-Redirect": "/files/a"}))
    files = upstream(measured())
    server = f"location / {{ {PROXY} }} location /files/ {{ internal; proxy_pass http://{files.address}; }}"
    nginx = serve(server, http=app_upstream(app.address))
    verdict = at_once(nginx)
    assert [row["upstream_status"] for row in logged(nginx, REQUESTS)] == ["200 : 200"] * REQUESTS
    assert verdict.cause == "unknown"
    assert "attempts" not in verdict.sentence


def slow_upload(nginx: Nginx) -> bytes:
    """Send 64 kB in pieces for ``LONG`` seconds."""
    with connect(nginx) as connection:
        connection.sendall(request_bytes("/", [("Content-Length", "65536")], "POST"))
        for _ in range(8):
            time.sleep(LONG / 8)
            connection.sendall(b"x" * 8192)
        return received(connection)


def test_slow_upload_is_the_clients(serve: Serve, upstream: Start) -> None:
    app = upstream(measured())
    verdict = at_once(serve(http=app_upstream(app.address)), slow_upload)
    assert verdict.cause == "client"


def test_slow_upload_that_the_app_reads_is_not_called_its_code(serve: Serve) -> None:
    """Without buffering the app starts at once, and reads the body itself."""
    unbuffered = f"location / {{ proxy_request_buffering off; {PROXY} }}"
    with reading_app() as address:
        verdict = at_once(serve(unbuffered, http=app_upstream(address)), slow_upload)
    assert verdict.cause == "service"
    assert "`proxy_request_buffering off`" in verdict.sentence


@contextmanager
def reading_app() -> Iterator[str]:
    """Run an app whose start is the end of the request's headers, and that reads the body as a part of its work."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    threads: list[threading.Thread] = []

    def serve(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            data = b""
            while b"\r\n\r\n" not in data:
                data += connection.recv(65536)
            begun = time.time()
            head, _, body = data.partition(b"\r\n\r\n")
            fields = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:])
            names = {name.lower(): value for name, value in fields.items()}
            read = len(body)
            while read < int(names[b"content-length"]):
                read += len(connection.recv(65536))
            delay = begun - float(names[b"x-request-start"][2:])
            connection.sendall(
                b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\nX-Worker: 1\r\n"
                + f"X-Queueing-Delay: {delay:.6f}\r\nX-Service-Time: {time.time() - begun:.6f}\r\n\r\nok".encode()
            )

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threads.append(threading.Thread(target=serve, args=(connection,), daemon=True))
            threads[-1].start()

    acceptor = threading.Thread(target=accept, daemon=True)
    acceptor.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for thread in (acceptor, *threads):
            thread.join(timeout=10)


def slow_download(nginx: Nginx) -> int:
    """Read a large answer over ``LONG`` seconds and more, with a small window."""
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16_384)
        connection.settimeout(20.0)
        connection.connect(("127.0.0.1", nginx.port))
        connection.sendall(request_bytes())
        read, pauses = 0, 0
        while part := connection.recv(65_536):
            read += len(part)
            if read > (pauses + 1) * LARGE / 10:
                pauses += 1
                time.sleep(LONG / 5)
        return read


def test_slow_download_is_the_clients(serve: Serve, upstream: Start) -> None:
    app = upstream(measured(body=b"x" * LARGE))
    assert at_once(serve(http=app_upstream(app.address)), slow_download, 3).cause == "client"


@contextmanager
def slow_resolver(answers: str, seconds: float) -> Iterator[str]:
    """Run a DNS server on UDP that answers every question with one address, after a pause."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 0))
    timers: list[threading.Timer] = []

    def answer(data: bytes, peer: tuple[str, int]) -> None:
        end = data.index(b"\0", 12) + 5  # of the question: its name, type and class
        kind = struct.unpack("!H", data[end - 4 : end - 2])[0]
        record = b"\xc0\x0c" + struct.pack("!HHIH", 1, 1, 1, 4) + socket.inet_aton(answers) if kind == 1 else b""
        header = data[:2] + struct.pack("!HHHHH", 0x8180, 1, int(kind == 1), 0, 0)
        with suppress(OSError):
            server.sendto(header + data[12:end] + record, peer)

    def listen() -> None:
        while True:
            try:
                data, peer = server.recvfrom(4096)
            except OSError:
                return
            if not data:
                return
            timers.append(threading.Timer(seconds, answer, (data, peer)))
            timers[-1].start()

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.getsockname()[1]}"
    finally:
        for timer in timers:
            timer.join(timeout=10)
        # An empty datagram ends the thread: closing a socket does not wake a receiver.
        with suppress(OSError):
            server.sendto(b"", server.getsockname())
        thread.join(timeout=10)
        server.close()


def test_slow_resolver_is_named(serve: Serve, upstream: Start) -> None:
    """For all requests it looks like another clock and time after the answer; for some, like impossible stamps."""
    app = upstream(measured())
    port = app.address.rpartition(":")[2]
    with slow_resolver("127.0.0.1", LONG) as address:
        server = (
            f"resolver {address} ipv6=off valid=60s; set $name app.example;"
            f"location / {{ proxy_pass http://$name:{port}; include sojourn/sojourn_proxy.conf; }}"
        )
        nginx = serve(server)
        every = at_once(nginx)
        for _ in range(REQUESTS):
            get(nginx)
    logged(nginx, 2 * REQUESTS)
    some = sojourn.split(nginx.access_log).verdict
    assert (every.cause, some.cause) == ("after", "unknown")
    assert "a resolver" in every.sentence
    assert "a resolver" in some.sentence
