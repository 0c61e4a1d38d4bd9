"""The middleware under the servers and frameworks it is for, each a real process on a real socket."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from collector_support import (
    SLACK_S,
    assert_queued,
    assert_two_threads_of_two_processes,
    assert_x_request_start_decides,
    eventually,
    fetch,
    fetch_parallel,
    gunicorn,
    served,
    stamp_now,
    uvicorn,
)

SERVICE_S = 0.15


def test_gunicorn_sync_queues_one_after_the_other(tmp_path: Path) -> None:
    with served(gunicorn("bare_app:application"), tmp_path) as (port, _):
        answers = fetch_parallel(port, "/sleep", 4)
        assert_queued(answers, SERVICE_S)
        (worker,) = {answer.headers["x-worker"] for answer in answers}
        assert worker.isdecimal()  # and not the header the app itself set


@pytest.mark.parametrize("threads", [1, 2])
def test_gunicorn_threads_waiting_for_one_is_queueing(tmp_path: Path, threads: int) -> None:
    command = gunicorn("bare_app:application", "--worker-class", "gthread", "--threads", str(threads))
    with served(command, tmp_path) as (port, _):
        answers = fetch_parallel(port, "/sleep", 4)
        assert_queued(answers, SERVICE_S, threads)
        workers = {answer.headers["x-worker"] for answer in answers}
        (process,) = {worker.partition(".")[0] for worker in workers}
        assert workers == {f"{process}.{number}" for number in range(1, threads + 1)}


def test_gunicorn_streaming_writing_and_errors(tmp_path: Path) -> None:
    with served(gunicorn("bare_app:application"), tmp_path) as (port, process):
        generator = fetch(port, "/generator")
        assert generator.body == b"one two"
        assert SERVICE_S <= generator.service_time < SLACK_S / 2  # the second chunk takes that long

        written = fetch(port, "/write")
        assert written.body == b"written once"
        assert SERVICE_S <= written.service_time < SERVICE_S + SLACK_S

        for path in ("/error", "/late-error"):
            answer = fetch(port, path)
            assert answer.status == 500
            assert "x-service-time" not in answer.headers  # the server's own answer, not the app's
            eventually(lambda: "LookupError" in process.last_lines(60), "the server to log the app's error")
        assert fetch(port).body == b"hello"


def test_head_has_the_headers_and_no_body(tmp_path: Path) -> None:
    with served(gunicorn("bare_app:application"), tmp_path) as (port, _):
        for path in ("/", "/generator"):
            answer = fetch(port, path, method="HEAD")
            assert answer.body == b""
            assert answer.queueing_delay > -0.01


@pytest.mark.parametrize("sendfile", [True, False])
def test_file_wrapper_still_reaches_the_server(tmp_path: Path, sendfile: bool) -> None:
    content = os.urandom(300_000)
    file = tmp_path / "content.bin"
    file.write_bytes(content)
    options = () if sendfile else ("--no-sendfile",)
    spans = {"SOJOURN_SPANS": str(tmp_path / "spans.jsonl")}
    with served(gunicorn("bare_app:application", *options), tmp_path, spans) as (port, _):
        answer = fetch(port, "/file", {"X-File": str(file)})
        assert answer.body == content
        assert answer.service_time < SLACK_S
        file = tmp_path / "spans.jsonl"
        eventually(lambda: file.exists() and file.read_text(), "the span of a file to be closed")


def test_duplicate_headers_are_refused_on_the_wire(tmp_path: Path) -> None:
    """Whether the server joins the two or keeps them apart, neither is used."""
    stamps = f"X-Request-Start: {stamp_now()}\r\n" * 2
    request = f"GET / HTTP/1.1\r\nHost: x\r\n{stamps}Connection: close\r\n\r\n"
    for command in (gunicorn("bare_app:application"), uvicorn("fastapi_app:wrapped")):
        with served(command, tmp_path) as (port, _):
            with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
                client.sendall(request.encode())
                answer = b"".join(iter(lambda client=client: client.recv(65536), b"")).lower()
            assert b"x-service-time" in answer
            assert b"x-queueing-delay" not in answer


def test_x_request_start_decides_on_the_wire(tmp_path: Path) -> None:
    for command in (gunicorn("bare_app:application"), uvicorn("fastapi_app:wrapped")):
        with served(command, tmp_path) as (port, _):
            assert_x_request_start_decides(port)


def test_preloaded_workers_have_names_of_their_own(tmp_path: Path) -> None:
    """The app is imported before the fork; each worker answers with its own process id."""
    with served(gunicorn("bare_app:application", "--workers", "2", "--preload"), tmp_path) as (port, process):
        workers: set[str] = set()

        def both_seen() -> bool:
            workers.update(answer.headers["x-worker"] for answer in fetch_parallel(port, "/sleep", 4))
            return len(workers) == 2

        eventually(both_seen, "both workers to serve a request")
        assert str(process.pid) not in workers


def test_preloaded_threads_have_numbers_of_their_own(tmp_path: Path) -> None:
    """The master has served a request before the fork; each process counts its threads from 1."""
    options = ("--workers", "2", "--worker-class", "gthread", "--threads", "2", "--preload")
    with served(gunicorn("warmed_app:application", *options), tmp_path) as (port, master):
        assert_two_threads_of_two_processes(port, master.pid)


def assert_no_route_is_made_up(port: int) -> None:
    """What no route matched has none; what failed in one keeps it."""
    missing = fetch(port, "/nothing-here")
    assert missing.status == 404
    assert "x-route" not in missing.headers
    error = fetch(port, "/error")
    assert (error.status, error.headers["x-route"]) == (500, "/error")


def test_flask(tmp_path: Path) -> None:
    with served(gunicorn("flask_app:app"), tmp_path) as (port, _):
        assert fetch(port, "/users/5").body == b"user 5"
        answer = fetch(port, "/users/7")
        assert answer.body == b"user 7"
        assert answer.headers["x-route"] == "/users/<int:number>"
        assert 0.05 <= answer.service_time < 0.05 + SLACK_S
        stream = fetch(port, "/stream")
        assert stream.body == b"ab"
        assert 0.05 <= stream.service_time < SLACK_S / 2
        assert_no_route_is_made_up(port)


@pytest.mark.parametrize("interface", ["wsgi", "asgi"])
def test_django(tmp_path: Path, interface: str) -> None:
    command = gunicorn("django_app:application") if interface == "wsgi" else uvicorn("django_app:asgi")
    with served(command, tmp_path) as (port, _):
        answer = fetch(port, "/users/7")
        assert answer.body == b"user 7"
        assert answer.headers["x-route"] == "/users/<int:number>"
        assert 0.05 <= answer.service_time < 0.05 + SLACK_S
        assert fetch(port, "/stream").body == b"ab"
        assert_no_route_is_made_up(port)


@pytest.mark.parametrize("name", ["app", "wrapped"])
def test_fastapi(tmp_path: Path, name: str) -> None:
    """Added with add_middleware, and wrapped around the whole app."""
    with served(uvicorn(f"fastapi_app:{name}"), tmp_path) as (port, _):
        answer = fetch(port, "/users/7")
        assert answer.body == b'{"user":7}'
        assert answer.headers["x-route"] == "/users/{number}"
        assert 0.05 <= answer.service_time < 0.05 + SLACK_S
        assert fetch(port, "/v1/things/x").headers["x-route"] == "/v1/things/{thing}"
        assert fetch(port, "/nested/things/x").headers["x-route"] == "/nested/things/{thing}"
        assert fetch(port, "/file").body.startswith(b'"""A FastAPI app')
        stream = fetch(port, "/stream")
        assert stream.body == b"ab"
        assert stream.service_time < SLACK_S / 2
        missing = fetch(port, "/nothing-here")
        assert missing.status == 404
        assert "x-route" not in missing.headers
        error = fetch(port, "/error")
        assert error.status == 500
        # Starlette answers for a crash outside everything added with add_middleware.
        assert ("x-service-time" in error.headers) == (name == "wrapped")


@pytest.mark.parametrize(
    "command",
    [uvicorn("fastapi_app:wrapped"), gunicorn("fastapi_app:wrapped", "--worker-class", "asgi")],
    ids=["uvicorn", "gunicorn"],
)
def test_waiting_for_the_event_loop_is_queueing(tmp_path: Path, command: list[str]) -> None:
    with served(command, tmp_path) as (port, _):
        fetch(port, "/users/1")
        answers = fetch_parallel(port, "/blocking", 4)
        assert_queued(answers, SERVICE_S)


def test_waiting_for_the_thread_pool_is_queueing_when_marked(tmp_path: Path) -> None:
    """Two threads in the pool: the third and fourth request wait for one, and only mark_started tells."""
    with served(uvicorn("fastapi_app:narrow"), tmp_path) as (port, _):
        fetch(port, "/users/1")
        # Twice as many as must wait: clients of a busy machine do not start at the same instant.
        unmarked = fetch_parallel(port, "/thread", 8)
        # The last to get a thread shows its wait as service: that is what mark_started is for.
        assert max(answer.service_time for answer in unmarked) >= 2 * SERVICE_S
        assert_queued(fetch_parallel(port, "/marked", 4), SERVICE_S, 2)


def test_websocket_handshake(tmp_path: Path) -> None:
    """By hand, so that the test needs no client library, and with a server that needs none either."""
    key = "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    request = f"GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n{key}"
    request += f"X-Request-Start: {stamp_now()}\r\n\r\n"
    answer = b""
    with (
        served(gunicorn("fastapi_app:wrapped", "--worker-class", "asgi"), tmp_path) as (port, _),
        socket.create_connection(("127.0.0.1", port), timeout=20) as client,
    ):
        client.sendall(request.encode())
        while b"hello" not in answer and (received := client.recv(65536)):
            answer += received
    head, _, frames = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 101")
    assert b"\r\nx-queueing-delay: " in head.lower()
    assert b"hello" in frames
