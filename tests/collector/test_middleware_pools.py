"""The pools inside a Python process: AnyIO's threads under Starlette and FastAPI, and connections of SQLAlchemy."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from collector_support import (
    call_asgi,
    call_wsgi,
    environ_of,
    eventually,
    fetch,
    scope_of,
    served,
    uvicorn,
)
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.parser import text_string_to_metric_families
from sojourn_middleware import ASGIMiddleware, Telemetry, WSGIMiddleware, observe_pool, pools
from sojourn_middleware.pool_metrics import POOL_METRICS
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.pool import NullPool, QueuePool
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

TABLE = json.loads((Path(__file__).parents[1] / "vectors" / "prometheus.json").read_text("utf-8"))
PLACES, IN_USE, WAITING = (metric.name for metric in POOL_METRICS)
REQUESTS, THREADS = 60, 40


@pytest.fixture(autouse=True)
def only_pools_of_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "_pools", {})
    monkeypatch.setattr(pools, "_warned", set())


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def ok(environ: Any, start_response: Any) -> list[bytes]:
    start_response("200 OK", [])
    return [b"ok"]


async def async_ok(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"ok"})


def pool_samples(registry: CollectorRegistry) -> dict[tuple[str, str], float]:
    """The value of each metric and pool, of the service without a name."""
    samples = {}
    for family in registry.collect():
        for sample in family.samples:
            if "pool" in sample.labels:
                assert sample.labels["service"] == ""
                samples[sample.name, sample.labels["pool"]] = sample.value
    return samples


def test_names_and_help_texts_are_those_of_the_table(registry: CollectorRegistry) -> None:
    engine = create_engine("sqlite://", poolclass=QueuePool)
    observe_pool(engine, "main")
    WSGIMiddleware(ok, prometheus=registry)
    metrics = {metric["name"]: metric for metric in TABLE["inside"]["metrics"] if "python" in metric["packages"]}
    for metric in POOL_METRICS:
        described = metrics.pop(metric.name)
        assert (described["kind"], described["labels"]) == ("gauge", ["service", "pool"])
        assert (metric.help, metric.otel_name, metric.unit) == (
            described["help"],
            described["otel_name"],
            described["unit"],
        )
    assert metrics == {}
    exported = {family.name: family.documentation for family in registry.collect() if "_pool_" in family.name}
    assert exported == {
        metric.name: metric.help for metric in POOL_METRICS[:2]
    }  # SQLAlchemy does not count the waiting


# ---- AnyIO


def scraped(port: int) -> dict[str, float]:
    """The metrics of the threads as one scrape shows them."""
    families = text_string_to_metric_families(fetch(port, "/metrics/").body.decode())
    labels = {"service": "shop", "pool": pools.ANYIO_THREADS}
    return {sample.name: sample.value for family in families for sample in family.samples if sample.labels == labels}


@pytest.mark.parametrize("multiprocess", [False, True], ids=["", "multiprocess"])
def test_requests_that_wait_for_a_thread_are_counted(tmp_path: Path, multiprocess: bool) -> None:
    files = tmp_path / "metrics"
    files.mkdir()
    environment = {"PROMETHEUS_MULTIPROC_DIR": str(files)} if multiprocess else {}
    with served(uvicorn("pooled_app:app"), tmp_path, environment) as (port, _):
        statuses: list[int] = []
        threads = [
            threading.Thread(target=lambda: statuses.append(fetch(port, "/held").status)) for _ in range(REQUESTS)
        ]
        for thread in threads:
            thread.start()
        try:
            full = {PLACES: THREADS, IN_USE: THREADS, WAITING: REQUESTS - THREADS}
            eventually(lambda: scraped(port) == full, "40 requests in threads and 20 that wait for one")
        finally:
            fetch(port, "/release")
            for thread in threads:
                thread.join(60)
        assert statuses == [200] * REQUESTS
        idle = {PLACES: THREADS, IN_USE: 0, WAITING: 0}
        eventually(lambda: scraped(port) == idle, "threads without requests")


def otel_points(reader: InMemoryMetricReader) -> dict[str, dict[str, int]]:
    """The values of the pools' instruments: name of the metric -> pool -> value."""
    data = reader.get_metrics_data()
    scopes = [scope for resource in data.resource_metrics for scope in resource.scope_metrics] if data else []
    return {
        metric.name: {point.attributes["queueing.pool.name"]: point.value for point in metric.data.data_points}
        for scope in scopes
        for metric in scope.metrics
        if metric.name.startswith("queueing.pool.")
    }


def test_opentelemetry_reads_the_threads_and_the_connections() -> None:
    released = threading.Event()

    def held(request: Any) -> PlainTextResponse:
        assert released.wait(60)
        return PlainTextResponse("held")

    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    app = Starlette(routes=[Route("/", held)])
    # Two middlewares of one provider, as in a process with two apps: no value is doubled.
    apps = [ASGIMiddleware(app, telemetry=Telemetry(meter_provider=provider)) for _ in range(2)]
    engine = create_engine("sqlite://", poolclass=QueuePool, pool_size=3, max_overflow=2)
    observe_pool(engine, "main")

    async def serve() -> None:
        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            pass

        requests = [asyncio.create_task(apps[index % 2](scope_of([]), receive, send)) for index in range(REQUESTS)]
        expected = {
            "queueing.pool.places": {"anyio_threads": THREADS, "main": 5},
            "queueing.pool.places_in_use": {"anyio_threads": THREADS, "main": 1},
            "queueing.pool.waiting": {"anyio_threads": REQUESTS - THREADS},
        }
        try:
            async with asyncio.timeout(60):
                while otel_points(reader) != expected:
                    await asyncio.sleep(0.01)
        finally:
            released.set()
            await asyncio.gather(*requests)

    with engine.connect():
        asyncio.run(serve())
    # The loop is closed, and its threads are no places any more.
    assert "anyio_threads" not in otel_points(reader)["queueing.pool.places"]
    provider.shutdown()


def test_threads_of_a_closed_loop_are_not_exported(registry: CollectorRegistry) -> None:
    inside: list[dict[tuple[str, str], float]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        inside.append(pool_samples(registry))
        await async_ok(scope, receive, send)

    middleware = ASGIMiddleware(app, prometheus=registry, telemetry=False)
    for _ in range(2):
        call_asgi(middleware, scope_of([]))  # each with a loop of its own
    idle = {(PLACES, "anyio_threads"): 40, (IN_USE, "anyio_threads"): 0, (WAITING, "anyio_threads"): 0}
    assert inside == [idle, idle]
    assert pool_samples(registry) == {}


def test_another_size_of_the_limiter_is_exported(registry: CollectorRegistry) -> None:
    from anyio.to_thread import current_default_thread_limiter  # noqa: PLC0415

    inside: list[float | None] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        for tokens in (7, float("inf")):
            current_default_thread_limiter().total_tokens = tokens
            inside.append(pool_samples(registry).get((PLACES, "anyio_threads")))
        await async_ok(scope, receive, send)

    call_asgi(ASGIMiddleware(app, prometheus=registry, telemetry=False), scope_of([]))
    assert inside == [7, None]


def test_limiter_is_read_once_per_loop(registry: CollectorRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    import anyio.to_thread  # noqa: PLC0415

    calls: list[Any] = []
    current = anyio.to_thread.current_default_thread_limiter
    monkeypatch.setattr(
        anyio.to_thread, "current_default_thread_limiter", lambda: calls.append(limiter := current()) or limiter
    )
    middleware = ASGIMiddleware(async_ok, prometheus=registry, telemetry=False)

    async def send(message: dict[str, Any]) -> None:
        pass

    async def serve() -> None:
        for _ in range(5):
            await middleware(scope_of([]), None, send)

    asyncio.run(serve())
    assert len(calls) == 1


def test_limiter_that_fails_is_one_warning(
    registry: CollectorRegistry, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import anyio.to_thread  # noqa: PLC0415

    def failing() -> None:
        raise RuntimeError("no limiter")

    monkeypatch.setattr(anyio.to_thread, "current_default_thread_limiter", failing)
    middleware = ASGIMiddleware(async_ok, prometheus=registry, telemetry=False)
    with caplog.at_level(logging.WARNING, "sojourn_middleware"):
        for _ in range(2):
            assert call_asgi(middleware, scope_of([]))[0]["status"] == 200
    (record,) = caplog.records
    assert "the threads of AnyIO are not observed" in record.getMessage()


def test_app_in_another_event_loop_is_served(registry: CollectorRegistry) -> None:
    """Trio, for example: no loop of asyncio runs."""
    statuses: list[int] = []

    async def send(message: dict[str, Any]) -> None:
        statuses.append(message.get("status", 0))

    coroutine = ASGIMiddleware(async_ok, prometheus=registry, telemetry=False)(scope_of([]), None, send)
    with pytest.raises(StopIteration):
        coroutine.send(None)
    assert statuses == [200, 0]
    assert pool_samples(registry) == {}


def test_no_library_is_imported() -> None:
    code = """
import asyncio, sys
from prometheus_client import REGISTRY, generate_latest
from sojourn_middleware import ASGIMiddleware

async def app(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body"})

async def send(message): pass

scope = {"type": "http", "method": "GET", "path": "/", "headers": []}
asyncio.run(ASGIMiddleware(app, prometheus=True)(scope, None, send))
print([name for name in ("anyio", "sqlalchemy") if name in sys.modules], b"sojourn_pool" in generate_latest(REGISTRY))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[] False", done.stdout


# ---- SQLAlchemy


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Any]:
    engine = create_engine(f"sqlite:///{tmp_path}/shop.db", poolclass=QueuePool, pool_size=2, max_overflow=1)
    yield engine
    engine.dispose()


@pytest.mark.parametrize("observed", ["engine", "pool", "async engine"])
def test_connections_in_use_are_counted(
    engine: Any, observed: str, registry: CollectorRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    WSGIMiddleware(ok, prometheus=registry)
    target = engine.pool if observed == "pool" else engine
    if observed == "async engine":
        monkeypatch.setattr(engine.dialect, "is_async", True)
        target = AsyncEngine(engine)
    observe_pool(target, "main")
    del target
    gc.collect()
    counts = []
    with engine.connect():
        counts.append(pool_samples(registry)[IN_USE, "main"])
        with engine.connect(), engine.connect():
            counts.append(pool_samples(registry)[IN_USE, "main"])
    assert pool_samples(registry) == {(PLACES, "main"): 3, (IN_USE, "main"): 0}
    assert counts == [1, 3]


def test_threads_that_wait_for_a_connection_leave_all_places_in_use(engine: Any, registry: CollectorRegistry) -> None:
    WSGIMiddleware(ok, prometheus=registry)
    observe_pool(engine, "main")
    released = threading.Event()

    def query() -> None:
        with engine.connect():
            assert released.wait(60)

    threads = [threading.Thread(target=query) for _ in range(5)]
    for thread in threads:
        thread.start()
    try:
        full = {(PLACES, "main"): 3, (IN_USE, "main"): 3}
        eventually(lambda: pool_samples(registry) == full, "three connections in use")
    finally:
        released.set()
        for thread in threads:
            thread.join(60)
    assert pool_samples(registry)[IN_USE, "main"] == 0


def test_engine_with_a_new_pool_is_still_observed(engine: Any, registry: CollectorRegistry) -> None:
    WSGIMiddleware(ok, prometheus=registry)
    observe_pool(engine, "main")
    engine.dispose()
    with engine.connect():
        assert pool_samples(registry)[IN_USE, "main"] == 1


@pytest.mark.parametrize(
    "options",
    [{"poolclass": QueuePool, "max_overflow": -1}, {"poolclass": QueuePool, "pool_size": 0}],
    ids=["overflow", "size"],
)
def test_pool_without_a_limit_has_no_places(options: dict[str, Any], registry: CollectorRegistry) -> None:
    WSGIMiddleware(ok, prometheus=registry)
    engine = create_engine("sqlite://", **options)
    observe_pool(engine, "main")
    with engine.connect():
        assert pool_samples(registry) == {(IN_USE, "main"): 1}


def test_pool_that_counts_no_connections_is_not_exported(registry: CollectorRegistry) -> None:
    WSGIMiddleware(ok, prometheus=registry)
    engine = create_engine("sqlite://", poolclass=NullPool)
    observe_pool(engine, "main")
    assert pool_samples(registry) == {}


def test_discarded_engine_is_not_exported(registry: CollectorRegistry) -> None:
    WSGIMiddleware(ok, prometheus=registry)
    engine = create_engine("sqlite://", poolclass=QueuePool)
    observe_pool(engine, "main")
    assert (PLACES, "main") in pool_samples(registry)
    del engine
    gc.collect()
    assert pool_samples(registry) == {}


def test_second_pool_of_a_name_replaces_the_first(registry: CollectorRegistry) -> None:
    WSGIMiddleware(ok, prometheus=registry)
    engines = [create_engine("sqlite://", poolclass=QueuePool, pool_size=size, max_overflow=0) for size in (3, 4)]
    for engine in engines:
        observe_pool(engine, "main")
    assert pool_samples(registry)[PLACES, "main"] == 4


def test_pool_is_exported_once_for_several_middlewares(registry: CollectorRegistry, engine: Any) -> None:
    for service in ("", "shop"):
        WSGIMiddleware(ok, prometheus=registry, service=service)
    observe_pool(engine, "main")
    assert pool_samples(registry) == {(PLACES, "main"): 3, (IN_USE, "main"): 0}


def test_pool_that_fails_is_one_warning(
    engine: Any, registry: CollectorRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        _max_overflow = 1

        def connect(self) -> None: ...

        def size(self) -> int:
            raise RuntimeError("no size")

        checkedout = size

    broken = Broken()
    observe_pool(broken, "broken")
    observe_pool(engine, "main")
    WSGIMiddleware(ok, prometheus=registry)
    with caplog.at_level(logging.WARNING, "sojourn_middleware"):
        for _ in range(2):
            assert pool_samples(registry) == {(PLACES, "main"): 3, (IN_USE, "main"): 0}
    (record,) = caplog.records
    assert "the pool broken could not be read" in record.getMessage()


def test_name_of_another_metric_of_the_app_costs_only_the_pools(
    engine: Any, registry: CollectorRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    Gauge(PLACES, "Of the app.", registry=registry)
    observe_pool(engine, "main")
    with caplog.at_level(logging.WARNING, "sojourn_middleware"):
        middleware = WSGIMiddleware(ok, prometheus=registry, telemetry=False)
    assert call_wsgi(middleware, environ_of([])).status == 200
    (record,) = caplog.records
    assert "no pools are exported" in record.getMessage()
    labels = {"service": "", "route": "", "status_class": "2xx"}
    assert registry.get_sample_value("sojourn_service_time_seconds_count", labels) == 1


@pytest.mark.parametrize(
    ("target", "name", "error"),
    [
        (None, 7, TypeError),
        (None, "", ValueError),
        (None, "anyio_threads", ValueError),
        (None, "main", TypeError),
        (object(), "main", TypeError),
    ],
)
def test_invalid_arguments_are_refused(target: Any, name: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        observe_pool(target, name)


def test_name_of_a_pool_metric_is_no_name_of_the_histogram() -> None:
    with pytest.raises(ValueError, match="prometheus_name"):
        WSGIMiddleware(ok, prometheus_name=PLACES)
