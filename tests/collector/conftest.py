"""The stacks of the in-process tests, the middleware with clocks set by the tests; and a store to ship to."""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent / "vector"))

# The path comes first.
from clickhouse_http import StandIn
from collector_support import ManualClock
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from sojourn.store import init
from sojourn_middleware import ASGIMiddleware, Telemetry, WSGIMiddleware
from vector_run import ACCOUNT


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def telemetry(exporter: InMemorySpanExporter) -> Telemetry:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return Telemetry(tracer_provider=provider)


@pytest.fixture(params=["headers only", "with spans"])
def observed(request: Any, telemetry: Telemetry) -> Telemetry | bool:
    """Once without telemetry and once with it: what an app and a server see must not differ."""
    return telemetry if request.param == "with spans" else False


@pytest.fixture
def finished(observed: Any, exporter: InMemorySpanExporter) -> Callable[[], tuple[ReadableSpan, ...]]:
    """The finished spans, checked for number: one with telemetry, none without."""

    def spans() -> tuple[ReadableSpan, ...]:
        spans = exporter.get_finished_spans()
        assert len(spans) == (1 if observed else 0)
        return spans

    return spans


@pytest.fixture
def wsgi(observed: Any, clock: ManualClock) -> Callable[..., WSGIMiddleware]:
    """Puts the middleware around a WSGI app."""
    return lambda app, **options: WSGIMiddleware(app, telemetry=observed, clock=clock, **options)


@pytest.fixture
def asgi(observed: Any, clock: ManualClock) -> Callable[..., ASGIMiddleware]:
    """Puts the middleware around an ASGI app."""
    return lambda app, **options: ASGIMiddleware(app, telemetry=observed, clock=clock, **options)


@pytest.fixture(scope="session")
def store_in(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], StandIn]:
    """Returns a stand-in for ClickHouse in a folder, not started, with Sojourn's tables.

    To make them takes seconds, so that they are made once, for every process of pytest-xdist, and copied.
    """
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    prepared = shared / "store-with-tables"

    def store_in(folder: Path) -> StandIn:
        with (shared / "store-with-tables.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not prepared.exists():
                unfinished = shared / "store-unfinished"
                shutil.rmtree(unfinished, ignore_errors=True)
                with StandIn(unfinished, ACCOUNT) as store:
                    init(store.dsn())
                store.data.rename(prepared)
        store = StandIn(folder, ACCOUNT)
        shutil.copytree(prepared, store.data, symlinks=True)
        return store

    return store_in
