"""The lab's own app server for real: order by discipline, slow and broken clients, bounds, a graceful end."""

from __future__ import annotations

import contextlib
import re
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from lab_support import eventually
from sojourn_lab.resources import resource_file
from sojourn_lab.runtime.backends import Backend, started_backend
from sojourn_lab.runtime.ports import free_port, port_answers
from sojourn_lab.runtime.process import Process
from sojourn_lab.scenario.topology import Topology
from sojourn_lab.scenario.topology_parts import QueueRules

HOST = "127.0.0.1"


@contextlib.contextmanager
def serving(folder: Path, **settings: Any) -> Iterator[Backend]:
    backend = started_backend("backend-1", Topology(server="queue", **settings), folder)
    try:
        backend.wait_until_ready()
        yield backend
    finally:
        backend.process.stop()


def sent(backend: Backend, path: str, head: str = "") -> socket.socket:
    connection = socket.create_connection((HOST, backend.port), timeout=20.0)
    stamp = "" if "X-Request-Start" in head else f"X-Request-Start: t={time.time():.3f}\r\n"
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n{stamp}{head}\r\n".encode())
    return connection


def answer_on(connection: socket.socket) -> tuple[int, dict[str, str], bytes]:
    """The status, the headers and the body; (0, {}, b"") from a connection that ended without an answer."""
    received = b""
    with connection, contextlib.suppress(ConnectionResetError):
        while piece := connection.recv(65_536):
            received += piece
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {line.partition(":")[0].lower(): line.partition(":")[2].strip() for line in lines}
    return int(first.split(" ")[1]) if first else 0, headers, body


def answer_of(backend: Backend, path: str, head: str = "") -> tuple[int, dict[str, str], bytes]:
    return answer_on(sent(backend, path, head))


def in_line(backend: Backend, *paths: str) -> list[socket.socket]:
    """A request for each path, each known to have been accepted before the next is sent."""
    connections = []
    for path in paths:
        connections.append(sent(backend, path))
        # One acceptor reads in turn: when a later connection is refused for its head, earlier ones are in line.
        assert answer_of(backend, "/x y")[0] == 400
    return connections


def served_by(backend: Backend, count: int) -> list[str]:
    """The seconds in the paths of the spans, once there are so many: a span is written after its answer is sent."""
    assert backend.spans is not None
    spans, paths = backend.spans, re.compile(r'"/sleep/([0-9.]+)"')
    eventually(lambda: len(paths.findall(spans.read_text())) >= count, 60.0, f"{count} spans")
    return paths.findall(spans.read_text())


def order_of_service(backend: Backend, count: int) -> list[int]:
    """The numbers of `count` requests that all wait for one worker, in the order in which they are served."""
    for attempt in range(1, 11):
        begun = time.monotonic()
        connections = in_line(backend, "/sleep/0.5", *(f"/sleep/0.01{number}" for number in range(count)))
        waited = time.monotonic() - begun < 0.5
        assert [answer_on(each)[0] for each in connections] == [200] * (count + 1)
        # One worker writes one span after the other.
        first, *rest = served_by(backend, attempt * (count + 1))[-1 - count :]
        # On a busy machine some may come when the first has been served, or before the worker has taken it.
        if waited and first == "0.5":
            return [int(path[-1]) for path in rest]
    pytest.fail("requests never all waited behind the first one")


@pytest.mark.parametrize(
    ("discipline", "order"),
    [
        ("fifo", [0, 1, 2, 3, 4, 5]),
        ("lifo", [5, 4, 3, 2, 1, 0]),
        # Six wait, then five …: the last come while more than three wait.
        ("adaptive_lifo", [5, 4, 3, 0, 1, 2]),
        ("codel", [0, 1, 2, 3, 4, 5]),
        ("deadline", [0, 1, 2, 3, 4, 5]),
    ],
)
def test_the_order_is_the_discipline_s(tmp_path: Path, discipline: Any, order: list[int]) -> None:
    rules = QueueRules(lifo_threshold=3, codel_target=30.0)
    with serving(tmp_path, discipline=discipline, rules=rules) as backend:
        assert order_of_service(backend, 6) == order


@pytest.mark.alone
def test_workers_work_side_by_side_under_names_of_their_own(tmp_path: Path) -> None:
    with serving(tmp_path, workers=3) as backend:
        stamp = f"X-Request-Start: t={time.time():.3f}\r\n"
        connections = [sent(backend, "/sleep/0.3", stamp) for _ in range(4)]
        answers = [answer_on(connection)[1] for connection in connections]
        assert len({each["x-worker"] for each in answers}) == 3
        # The fourth waited for a worker, and the middleware saw it: its start is when a worker took it.
        assert max(float(each["x-queueing-delay"]) for each in answers) >= 0.29
        assert all(each["connection"] == "close" for each in answers)
        assert len(served_by(backend, 4)) == 4


def test_slow_sender_delays_no_other_request(tmp_path: Path) -> None:
    with serving(tmp_path) as backend:
        slow = socket.create_connection((HOST, backend.port), timeout=20.0)
        slow.sendall(b"GET /sleep/0.01 HT")
        assert answer_of(backend, "/sleep/0.01")[0] == 200
        for piece in (b"TP/1.1\r\nHo", b"st: x\r\nContent-Length: 3\r\n\r", b"\nab"):
            slow.sendall(piece)
            assert answer_of(backend, "/sleep/0")[0] == 200
        slow.sendall(b"c")
        assert answer_on(slow)[0] == 200


def test_disconnecting_clients_affect_no_other_request(tmp_path: Path) -> None:
    with serving(tmp_path) as backend:
        for path in ("/sleep/0.05", "/sleep/0.05?bytes=5000000"):
            for part in (f"GET {path} HTTP/1.1\r\n\r\n", "GET /sl"):
                connection = socket.create_connection((HOST, backend.port))
                connection.sendall(part.encode())
                # Zero linger: close sends a reset.
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.close()
        status, _, body = answer_of(backend, "/sleep/0?bytes=3000000")
        assert (status, len(body)) == (200, 3_000_000)
        assert "Traceback" not in backend.process.err_path.read_text()


def test_abandoned_request_is_served_by_fifo_and_not_by_deadline(tmp_path: Path) -> None:
    for discipline, served in (("fifo", 3), ("deadline", 2)):
        folder = tmp_path / discipline
        folder.mkdir()
        with serving(folder, discipline=discipline) as backend:
            assert served_with_one_gone(backend) == served


def served_with_one_gone(backend: Backend) -> int:
    """Of three requests, the second's client leaves while the first is served: how many of them are served."""
    assert backend.spans is not None
    spans, before = backend.spans, 0
    for attempt in range(1, 11):
        begun = time.monotonic()
        (blocker,) = in_line(backend, "/sleep/0.5")
        gone, last = in_line(backend, "/sleep/0.01", "/sleep/0.02")
        gone.close()
        left = time.monotonic()
        assert [answer_on(each)[0] for each in (blocker, last)] == [200, 200]
        # One worker writes one span after the other, each after its answer is sent.
        eventually(lambda last=attempt: spans.read_text().count('"/sleep/0.02"') == last, 60.0, "the last span")  # type: ignore[misc]
        after = len(served_by(backend, 0))
        # On a busy machine the first may have been served before the client left.
        if left - begun < 0.5:
            return after - before
        before = after
    pytest.fail("the client never left while the first request was served")


@pytest.mark.alone
def test_deadline_answers_503_when_nginx_is_about_to_give_up(tmp_path: Path) -> None:
    with serving(tmp_path, discipline="deadline", proxy_read_timeout=0.2) as backend:
        connections = in_line(backend, "/sleep/1.0", "/sleep/0.5")
        assert [answer_on(each)[0] for each in connections] == [200, 503]
        assert answer_of(backend, "/sleep/0")[0] == 200


@pytest.mark.alone
def test_beyond_the_waiting_places_a_request_is_answered_with_503_at_once(tmp_path: Path) -> None:
    with serving(tmp_path, rules=QueueRules(capacity=2)) as backend:
        connections = in_line(backend, "/sleep/2.5", "/sleep/0.01", "/sleep/0.01")
        begun = time.monotonic()
        status, _, _ = answer_of(backend, "/sleep/0.01")
        assert status == 503
        assert time.monotonic() - begun < 2.0, "while the first is still in service"
        assert [answer_on(each)[0] for each in connections] == [200] * 3


def test_probe_is_answered_when_the_queue_is_empty(tmp_path: Path) -> None:
    with serving(tmp_path, discipline="lifo") as backend:
        waiting = in_line(backend, *["/sleep/0.1"] * 4)
        assert backend.answers(timeout=10.0)
        backend_done = [answer_on(each)[1]["x-service-time"] for each in waiting]
        assert len(backend_done) == len(served_by(backend, 4)) == 4


@pytest.mark.parametrize(
    ("request_text", "status"),
    [
        (b"GET /sleep/0 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 411),
        (b"GET /sleep/0 HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"GET /sleep/0 HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", 400),
        (b"GET /sleep/0 HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", 413),
        (b"GET /sleep/0 HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET /sleep/0 HTTP/1.1\r\nA: " + b"a" * 70_000, 431),
        (b"\x16\x03\x01 tls hello \r\n\r\n", 400),
        (b"GET /sleep/0\r\n\r\n", 400),
        (b"GET /sleep/0 HTTP/1.0\r\n\r\n", 200),
        (b"GET /sleep/0%FF?a=%00 HTTP/1.1\r\nX-\xc3: 1\r\n\r\n", 400),
        (b"GET /sleep/0%FF HTTP/1.1\r\n\r\n", 400),
        (b"GET /%E2%82%AC HTTP/1.1\r\n\r\n", 404),
    ],
)
def test_rejects_invalid_requests(one: Backend, request_text: bytes, status: int) -> None:
    connection = socket.create_connection((HOST, one.port), timeout=20.0)
    connection.sendall(request_text)
    assert answer_on(connection)[0] == status
    assert answer_of(one, "/sleep/0")[0] == 200


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    with serving(tmp_path_factory.mktemp("one")) as backend:
        yield backend


def test_reports_the_given_route(one: Backend) -> None:
    assert answer_of(one, "/sleep/0?route=/export/all")[1]["x-route"] == "/export/all"
    status, _, body = answer_of(one, "/sleep/0?route=export%0d%0aX:y")
    assert (status, body[:6]) == (400, b"route ")


def test_queued_requests_are_served_after_sigterm(tmp_path: Path) -> None:
    with serving(tmp_path) as backend:
        waiting = in_line(backend, *["/sleep/0.2"] * 3)
        with ThreadPoolExecutor(1) as pool:
            answers = pool.submit(lambda: [answer_on(each)[0] for each in waiting])
            backend.process.send_signal(15)
            eventually(lambda: backend.process.exit_code() is not None, 60.0, "the server to end")
            assert answers.result() == [200, 200, 200]
        assert backend.process.exit_code() == 0
        with socket.socket() as probe:
            assert probe.connect_ex((HOST, backend.port)) != 0


def test_command_line_rejects_unknown_values(tmp_path: Path) -> None:
    with Process(
        command("--port", str(port := free_port(HOST)), "--workers", "2"), name="alone", folder=tmp_path
    ) as one:
        one.wait_until(lambda: port_answers(HOST, port), 60.0, "the server to answer")
        with socket.create_connection((HOST, port), timeout=20.0) as connection:
            connection.sendall(b"GET /sleep/0 HTTP/1.1\r\n\r\n")
            assert connection.recv(65_536).startswith(b"HTTP/1.1 200 OK\r\n")
    for arguments, words in (
        (["--port", "1", "--discipline", "sjf"], "invalid choice: 'sjf'"),
        ([], "one of the arguments --fd --port is required"),
    ):
        done = subprocess.run(command(*arguments), capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, words in done.stderr) == (2, True)


def command(*arguments: str) -> list[str]:
    return [sys.executable, str(resource_file("backend", "queue_server.py")), "app:application", *arguments]


def test_a_burst_is_held_in_line_rather_than_by_the_kernel(tmp_path: Path) -> None:
    with serving(tmp_path, workers=4, backlog=64) as backend:
        connections = [sent(backend, "/sleep/0.002") for _ in range(600)]
        assert {answer_on(each)[0] for each in connections} == {200}
        threads = Path(f"/proc/{backend.process.pid}/status").read_text()
        assert int(re.findall(r"Threads:\s+(\d+)", threads)[0]) <= 12, "a line, not a thread for each"
