"""What the tests of the middleware share: the vector table, in-process calls and real servers."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sojourn_lab.runtime.ports import free_port, wait_for_port
from sojourn_lab.runtime.process import Process
from sojourn_middleware.timing import Instant

APPS = Path(__file__).parent / "apps"
TABLE = json.loads((Path(__file__).parents[1] / "vectors" / "request_start.json").read_text("utf-8"))
CASES: list[dict[str, Any]] = TABLE["cases"]
NOW_US: int = TABLE["now_us"]
# How much later than the law says a request may be served before it is a fault: the machine may be busy.
SLACK_S = 2.0
ANSWER_NAMES = ("x-queueing-delay", "x-service-time", "x-worker", "x-route")


def limits_of(case: Mapping[str, Any]) -> dict[str, float]:
    """The options a case asks for."""
    return {name: case[name] for name in ("max_age", "max_future") if name in case}


class ManualClock:
    """Two clocks that tests set by hand, so that every figure is known in advance."""

    def __init__(self, wall_us: int = NOW_US) -> None:
        self.wall_ns = wall_us * 1000
        self.monotonic_ns = 5_000_000_000

    def __call__(self) -> Instant:
        return self.wall_ns, self.monotonic_ns

    def advance(self, seconds: float) -> None:
        self.wall_ns += round(seconds * 1e9)
        self.monotonic_ns += round(seconds * 1e9)


def environ_of(headers: Sequence[Sequence[str]], **more: Any) -> dict[str, Any]:
    """A WSGI environ as a server makes it: repeated headers are joined with a comma."""
    environ: dict[str, Any] = {
        "REQUEST_METHOD": "GET",
        "SCRIPT_NAME": "",
        "PATH_INFO": "/",
        "QUERY_STRING": "",
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "8000",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "wsgi.url_scheme": "http",
        "wsgi.multithread": False,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
        "wsgi.version": (1, 0),
    }
    for name, value in headers:
        key = "HTTP_" + name.upper().replace("-", "_")
        environ[key] = f"{environ[key]},{value}" if key in environ else value
    environ.update(more)
    return environ


@dataclass
class Answer:
    """What a client got. Header names in lower case; a repeated header fails the test that made it."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def queueing_delay(self) -> float:
        return float(self.headers["x-queueing-delay"])

    @property
    def service_time(self) -> float:
        return float(self.headers["x-service-time"])


def unique_headers(pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Headers by lower-case name, none of ours twice."""
    names = [name.lower() for name, _ in pairs]
    for name in ANSWER_NAMES:
        assert names.count(name) <= 1, f"{name} is doubled"
    return {name.lower(): value for name, value in pairs}


def call_wsgi(app: Any, environ: dict[str, Any]) -> Answer:
    """Serve one request as a WSGI server does, without a socket."""
    started: list[tuple[str, list[tuple[str, str]]]] = []
    written: list[bytes] = []

    def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
        started.append((status, headers))
        return written.append

    body = app(environ, start_response)
    try:
        for chunk in body:
            assert started, "a chunk came before the headers"
            written.append(chunk)
    finally:
        if hasattr(body, "close"):
            body.close()
    assert len(started) == 1
    return Answer(int(started[0][0][:3]), unique_headers(started[0][1]), b"".join(written))


def scope_of(headers: Sequence[Sequence[str]], **more: Any) -> dict[str, Any]:
    """An ASGI scope; names in lower case, as the specification has it."""
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": "/",
        "raw_path": b"/",
        "query_string": b"",
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers],
        "server": ("127.0.0.1", 8000),
        **more,
    }


def call_asgi(app: Any, scope: dict[str, Any]) -> list[dict[str, Any]]:
    """Every message the app sent for one request, without a socket."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    return sent


def asgi_answer(sent: list[dict[str, Any]]) -> Answer:
    """The answer those messages make."""
    start = next(message for message in sent if message["type"] == "http.response.start")
    pairs = [(name.decode(), value.decode()) for name, value in start["headers"]]
    body = b"".join(message.get("body", b"") for message in sent if message["type"] == "http.response.body")
    return Answer(start["status"], unique_headers(pairs), body)


def stamp_now() -> str:
    """A stamp as nginx writes it, of this moment: whole milliseconds, cut and not rounded."""
    millis = time.time_ns() // 1_000_000
    return f"t={millis // 1000}.{millis % 1000:03d}"


def fetch(port: int, path: str = "/", headers: Mapping[str, str] | None = None, method: str = "GET") -> Answer:
    """One real request, stamped now unless `headers` says otherwise."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request(method, path, headers={"X-Request-Start": stamp_now(), **(headers or {})})
        response = connection.getresponse()
        body = response.read()
        return Answer(response.status, unique_headers(response.getheaders()), body)
    finally:
        connection.close()


def assert_x_request_start_decides(port: int) -> None:
    """A client's X-Queue-Start, 500 s old, is not read beside the proxy's X-Request-Start, valid or refused."""
    forged_s = time.time() - 500
    forged = f"t={forged_s:.3f}"
    assert -0.01 < fetch(port, headers={"X-Queue-Start": forged}).queueing_delay < SLACK_S
    refused = fetch(port, headers={"X-Request-Start": "junk", "X-Queue-Start": forged})
    assert "x-queueing-delay" not in refused.headers
    alone = fetch(port, headers={"X-Request-Start": "", "X-Queue-Start": forged})
    assert 499 < alone.queueing_delay < time.time() - forged_s + 0.01


def fetch_parallel(port: int, path: str, count: int) -> list[Answer]:
    """`count` requests sent together, ordered by the queueing delay the app reported.

    All carry the same stamp, so that a slow client thread does not shorten any wait.
    """
    answers: list[Answer] = []
    gate = threading.Barrier(count)
    stamp = {"X-Request-Start": stamp_now()}

    def one() -> None:
        gate.wait(60)
        answers.append(fetch(port, path, stamp))

    threads = [threading.Thread(target=one) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(answers) == count
    return sorted(answers, key=lambda answer: answer.queueing_delay)


@contextmanager
def served(
    arguments: Sequence[str], folder: Path, env: Mapping[str, str] | None = None, name: str = "server"
) -> Iterator[tuple[int, Process]]:
    """A server on a free port; ``{port}`` in the arguments stands for it. Ended when the block is left."""
    port = free_port()
    command = [argument.replace("{port}", str(port)) for argument in arguments]
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "SOJOURN_"))}
    with Process(command, name=name, folder=folder, env={**clean, **(env or {})}) as process:
        wait_for_port("127.0.0.1", port, 60, process)
        yield port, process


def gunicorn(app: str, *options: str) -> list[str]:
    """A gunicorn command: one worker, unless the options say otherwise."""
    where = ("--chdir", str(APPS), "--bind", "127.0.0.1:{port}", "--no-control-socket")
    return [sys.executable, "-m", "gunicorn", *where, *options, app]


def uvicorn(app: str, *options: str) -> list[str]:
    """A uvicorn command."""
    where = ("--app-dir", str(APPS), "--host", "127.0.0.1", "--port", "{port}", "--log-level", "warning")
    return [sys.executable, "-m", "uvicorn", *where, *options, app]


def assert_queued(answers: Sequence[Answer], service_s: float, at_once: int = 1) -> None:
    """Under `at_once` workers the k-th of requests sent together waits for k // at_once services of others.

    Not less, and not twice as much; each then takes one service of its own.
    """
    for position, answer in enumerate(answers):
        expected = (position // at_once) * service_s
        assert expected <= answer.queueing_delay < expected + SLACK_S, f"request {position} of {answers}"
        assert service_s <= answer.service_time < service_s + SLACK_S


def eventually(predicate: Any, what: str, deadline_s: float = 60.0) -> Any:
    """What `predicate` returns, soon after it is true; fails after the deadline.

    It pauses for a tenth of the time it has waited, at most 0.2 s: to look costs time that the program could use.
    """
    began = time.monotonic()
    while not (result := predicate()):
        waited = time.monotonic() - began
        assert waited < deadline_s, f"waited {deadline_s:g} s for {what}"
        time.sleep(min(0.2, max(0.02, waited / 10)))
    return result


def workers_of(port: int, complete: Callable[[set[str]], bool]) -> tuple[set[str], list[Answer]]:
    """The workers that answer until the set is complete, and in two rounds after that; and every answer."""
    workers: set[str] = set()
    answers: list[Answer] = []

    def seen() -> bool:
        answers.extend(fetch_parallel(port, "/sleep", 8))
        workers.update(answer.headers["x-worker"] for answer in answers)
        return complete(workers)

    eventually(seen, "every worker to serve a request")
    for _ in range(2):
        seen()
    return workers, answers


def assert_two_threads_of_two_processes(port: int, master: int) -> list[Answer]:
    """Two threads each of two processes serve requests, and no other worker; return the answers."""
    workers, answers = workers_of(port, lambda seen: len(seen) >= 4)
    pids = {worker.partition(".")[0] for worker in workers}
    assert workers == {f"{pid}.{number}" for pid in pids for number in (1, 2)}
    assert len(pids) == 2
    assert str(master) not in pids
    return answers
