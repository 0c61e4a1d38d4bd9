"""The stacks of the in-process tests: the middleware with clocks set by the tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from collector_support import ManualClock
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from sojourn_middleware import ASGIMiddleware, Telemetry, WSGIMiddleware


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
