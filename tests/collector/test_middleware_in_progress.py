"""The number of requests in progress that WSGI and ASGI export, on real servers and as OpenTelemetry's instrument."""

from __future__ import annotations

import asyncio
import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from collector_support import (
    call_asgi,
    call_wsgi,
    environ_of,
    eventually,
    fetch,
    gunicorn,
    scope_of,
    served,
    uvicorn,
)
from opentelemetry.instrumentation.asgi import OpenTelemetryMiddleware
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families
from sojourn_middleware import ASGIMiddleware, Telemetry, WSGIMiddleware
from sojourn_middleware.in_progress import NAME, OTEL_NAME, is_event_stream
from websockets.sync.client import connect

REQUESTS = 3
SERVERS = {
    "gunicorn": gunicorn("counted_app:wsgi", "--threads", "8"),
    "gunicorn, two processes": gunicorn("counted_app:wsgi", "--threads", "8", "--workers", "2"),
    "uvicorn": uvicorn("counted_app:asgi"),
}


def in_progress(port: int) -> float | None:
    """The gauge of one scrape: exactly one series; None for a scrape that failed.

    `prometheus_client` raises while a process that starts has created its file and not yet written to it.
    """
    response = fetch(port, "/metrics")
    if response.status != 200:
        return None
    families = text_string_to_metric_families(response.body.decode())
    (sample,) = (sample for family in families for sample in family.samples if sample.name == NAME)
    assert sample.labels == {"service": "shop"}
    return sample.value


def expect(port: int, requests: int) -> None:
    eventually(lambda: in_progress(port) == requests, f"{requests} requests in progress")


@contextmanager
def counted(folder: Path, command: list[str]) -> Iterator[tuple[int, Any, Path]]:
    """A server of `counted_app`: its port, its process, and the file that ends its requests."""
    environment = {"RELEASE": str(folder / "release")}
    if "--workers" in command:
        (folder / "metrics").mkdir()
        environment["PROMETHEUS_MULTIPROC_DIR"] = str(folder / "metrics")
    with served(command, folder, environment) as (port, process):
        yield port, process, folder / "release"


@contextmanager
def requested(port: int, *paths: str) -> Iterator[list[int]]:
    """Requests without an end yet; the statuses after the block, 0 for a connection that ended without a response."""
    statuses: list[int] = []

    def one(path: str) -> None:
        try:
            statuses.append(fetch(port, path).status)
        except (http.client.HTTPException, OSError):
            statuses.append(0)

    threads = [threading.Thread(target=one, args=(path,)) for path in paths]
    for thread in threads:
        thread.start()
    try:
        yield statuses
    finally:
        for thread in threads:
            thread.join(60)


@pytest.mark.parametrize("server", SERVERS)
def test_requests_that_the_app_holds_are_in_progress(tmp_path: Path, server: str) -> None:
    with counted(tmp_path, SERVERS[server]) as (port, _, release):
        assert in_progress(port) == 0  # the scrape is outside of the middleware
        with requested(port, *["/held"] * REQUESTS, "/error") as statuses:
            expect(port, REQUESTS + 1)
            release.touch()
        assert sorted(statuses) == [200] * REQUESTS + [500]
        expect(port, 0)


@pytest.mark.parametrize("server", SERVERS)
def test_request_of_a_client_that_has_left_ends_with_the_app(tmp_path: Path, server: str) -> None:
    with counted(tmp_path, SERVERS[server]) as (port, _, release):
        with socket.create_connection(("127.0.0.1", port), 20) as client:
            client.sendall(b"GET /held HTTP/1.1\r\nHost: x\r\n\r\n")
            expect(port, 1)
        release.touch()
        expect(port, 0)


@pytest.mark.parametrize("server", SERVERS)
def test_server_sent_events_are_not_in_progress(tmp_path: Path, server: str) -> None:
    with (
        counted(tmp_path, SERVERS[server]) as (port, _, release),
        socket.create_connection(("127.0.0.1", port), 20) as client,
    ):
        client.sendall(b"GET /events HTTP/1.1\r\nHost: x\r\n\r\n")
        received = b""
        while b"data: first" not in received:
            received += client.recv(4096)
        assert in_progress(port) == 0
        with requested(port, "/held"):
            expect(port, 1)
            release.touch()
        expect(port, 0)


def test_websocket_is_not_in_progress_after_its_handshake(tmp_path: Path) -> None:
    with (
        counted(tmp_path, SERVERS["uvicorn"]) as (port, _, release),
        connect(f"ws://127.0.0.1:{port}/", proxy=None),
    ):
        expect(port, 0)
        with requested(port, "/held"):
            expect(port, 1)
            release.touch()
        expect(port, 0)


@pytest.mark.parametrize("preload", [(), ("--preload",)], ids=["", "preload"])
def test_killed_worker_leaves_no_count(tmp_path: Path, preload: tuple[str, ...]) -> None:
    """No hook of the server is configured: a worker that serves requests removes the gauges of the killed ones."""
    command = gunicorn("counted_app:wsgi", "--threads", "8", "--workers", "2", *preload)
    with counted(tmp_path, command) as (port, process, release):
        eventually(lambda: len(children_of(process.pid)) == 2, "two workers")
        with requested(port, *["/held"] * 4) as statuses:
            expect(port, 4)
            for worker in children_of(process.pid):
                os.kill(int(worker), signal.SIGKILL)
        assert statuses == [0] * 4

        def remaining() -> float | None:
            fetch(port, "/quick")
            return in_progress(port)

        with requested(port, "/held"):
            eventually(lambda: remaining() == 1, "the gauge without those of the killed workers")
            release.touch()
        eventually(lambda: remaining() == 0, "no request in progress")  # those of the killed may have been the one


def children_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def test_file_of_a_process_with_a_reused_number_is_not_continued(tmp_path: Path) -> None:
    """A container gives the same number again: the file of the killed process has its count."""
    code = """
import os, sys
from prometheus_client import CollectorRegistry, values
from prometheus_client.multiprocess import MultiProcessCollector
values.ValueClass = values.MultiProcessValue(lambda: int(os.environ["NUMBER"]))
from sojourn_middleware import WSGIMiddleware
def app(environ, start_response):
    registry = CollectorRegistry()
    MultiProcessCollector(registry)
    print(registry.get_sample_value("sojourn_requests_in_progress", {"service": ""}), flush=True)
    os._exit(0)
from collector_support import environ_of
WSGIMiddleware(app, prometheus=CollectorRegistry())(environ_of([]), None)
"""
    # The number of a process that lives, so that its file is not removed.
    environment = {
        **os.environ,
        "PROMETHEUS_MULTIPROC_DIR": str(tmp_path),
        "NUMBER": str(os.getpid()),
        "PYTHONPATH": str(Path(__file__).parent),
    }
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.stdout == "1.0\n", done.stderr


# ---- The end of a request, in the process


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def value(registry: CollectorRegistry) -> float | None:
    return registry.get_sample_value(NAME, {"service": ""})


def test_lazy_body_is_in_progress_until_it_is_closed(wsgi: Any, registry: CollectorRegistry) -> None:
    def app(environ: Any, start_response: Any) -> Iterator[bytes]:
        start_response("200 OK", [])
        yield b"first"
        yield b"last"

    body = wsgi(app, prometheus=registry)(environ_of([]), lambda *_: None)
    chunks = [(chunk, value(registry)) for chunk in body]
    assert chunks == [(b"first", 1), (b"last", 1)]
    body.close()
    assert value(registry) == 0
    body.close()
    assert value(registry) == 0


def test_complete_body_is_in_progress_until_it_is_closed(wsgi: Any, registry: CollectorRegistry) -> None:
    def app(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [])
        return [b"one", b"two"]

    body = wsgi(app, prometheus=registry)(environ_of([]), lambda *_: None)
    assert (list(body), len(body), value(registry)) == ([b"one", b"two"], 2, 1)
    body.close()
    assert value(registry) == 0


def test_switched_protocol_is_not_in_progress(wsgi: Any, registry: CollectorRegistry) -> None:
    during: list[float | None] = []

    def app(environ: Any, start_response: Any) -> Iterator[bytes]:
        start_response("101 Switching Protocols", [("Upgrade", "websocket")])
        yield b"frame"
        during.append(value(registry))

    call_wsgi(wsgi(app, prometheus=registry), environ_of([]))
    assert (during, value(registry)) == ([0], 0)


def test_refused_handshake_ends(asgi: Any, registry: CollectorRegistry) -> None:
    during: list[float | None] = []

    async def refusing(scope: Any, receive: Any, send: Any) -> None:
        during.append(value(registry))
        await send({"type": "websocket.close"})

    call_asgi(asgi(refusing, prometheus=registry), scope_of([], type="websocket"))
    assert (during, value(registry)) == ([1], 0)


def test_cancelled_request_ends(asgi: Any, registry: CollectorRegistry) -> None:
    """Some servers cancel the task when the client has left."""
    during: list[float | None] = []

    async def waiting(scope: Any, receive: Any, send: Any) -> None:
        during.append(value(registry))
        await asyncio.Event().wait()

    async def serve() -> None:
        task = asyncio.create_task(asgi(waiting, prometheus=registry)(scope_of([]), None, None))
        while not during:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(serve())
    assert (during, value(registry)) == ([1], 0)


def test_middleware_inside_another_one_counts_once(registry: CollectorRegistry) -> None:
    during: list[float | None] = []

    def app(environ: Any, start_response: Any) -> list[bytes]:
        during.append(value(registry))
        start_response("200 OK", [])
        return []

    inner = WSGIMiddleware(app, prometheus=registry, telemetry=False)
    call_wsgi(WSGIMiddleware(inner, prometheus=registry, telemetry=False), environ_of([]))
    assert (during, value(registry)) == ([1], 0)


@pytest.mark.parametrize(
    ("content_type", "events"),
    [
        ("text/event-stream", True),
        ("Text/Event-Stream ; charset=utf-8", True),
        ("text/event-streams", False),
        ("text/plain", False),
        ("", False),
    ],
)
def test_content_type_of_events(content_type: str, events: bool) -> None:
    assert is_event_stream(content_type) is events


# ---- OpenTelemetry


def points(reader: InMemoryMetricReader) -> list[tuple[str, dict[str, Any], int]]:
    """The series of the instrument: scope, attributes, value."""
    data = reader.get_metrics_data()
    return [
        (scope.scope.name, dict(point.attributes), point.value)
        for resource in (data.resource_metrics if data else ())
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if metric.name == OTEL_NAME
        for point in metric.data.data_points
    ]


def served_scope(app: Any) -> None:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None: ...

    asyncio.run(app(scope_of([], client=("127.0.0.1", 4000)), receive, send))


@pytest.mark.parametrize("traced", [False, True], ids=["", "with spans"])
def test_opentelemetry_has_the_requests_in_progress(traced: bool) -> None:
    reader = InMemoryMetricReader()
    tracers = TracerProvider() if traced else None
    during: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        during.extend(points(reader))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    measured = ASGIMiddleware(app, telemetry=Telemetry(tracers, MeterProvider([reader])))
    served_scope(measured)
    attributes = {"http.request.method": "GET", "url.scheme": "http"}
    assert during == [("sojourn_middleware", attributes, 1)]
    assert points(reader) == [("sojourn_middleware", attributes, 0)]


def test_requests_of_automatic_instrumentation_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SEMCONV_STABILITY_OPT_IN", "http")
    reader = InMemoryMetricReader()
    meters, tracers = MeterProvider([reader]), TracerProvider()
    during: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        during.extend(points(reader))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    measured = ASGIMiddleware(app, telemetry=Telemetry(tracers, meters))
    served_scope(OpenTelemetryMiddleware(measured, tracer_provider=tracers, meter_provider=meters))
    assert [(scope, number) for scope, _, number in during] == [("opentelemetry.instrumentation.asgi", 1)]
