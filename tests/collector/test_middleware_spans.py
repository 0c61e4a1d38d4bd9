"""What a span says, attribute by attribute, with providers of the test's own and clocks set by the tests."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from typing import Any

import pytest
from collector_support import NOW_US, ManualClock, call_asgi, call_wsgi, environ_of, scope_of
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider, sampling
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from sojourn_middleware import ASGIMiddleware, Telemetry, WSGIMiddleware, mark_started

TRACE_ID = 0x0AF7651916CD43DD8448EB211C80319C
HEADERS = [
    ["Host", "shop.example:8443"],
    ["X-Request-ID", "abc123"],
    ["X-Request-Start", "t=1767225599.900"],
    ["traceparent", f"00-{TRACE_ID:032x}-b7ad6b7169203331-01"],
]


class Recorder:
    """Providers that keep what they get in memory."""

    def __init__(self, **options: Any) -> None:
        self.clock = ManualClock()
        self.exporter = InMemorySpanExporter()
        self.tracer_provider = TracerProvider(**options)
        self.tracer_provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        self.telemetry = Telemetry(self.tracer_provider, MeterProvider([self.reader]))

    def span(self) -> ReadableSpan:
        """The one finished span."""
        (span,) = self.exporter.get_finished_spans()
        return span

    def attributes(self) -> dict[str, Any]:
        """The attributes of the one finished span."""
        return dict(self.span().attributes or {})

    def histogram(self) -> list[HistogramDataPoint]:
        """The data points of ``queueing.delay``."""
        data = self.reader.get_metrics_data()
        if data is None:
            return []
        metrics = data.resource_metrics[0].scope_metrics[0].metrics
        histograms = [metric for metric in metrics if metric.name == "queueing.delay"]
        if not histograms:
            return []
        (metric,) = histograms
        assert (metric.name, metric.unit) == ("queueing.delay", "s")
        return list(metric.data.data_points)  # type: ignore[arg-type]

    def wsgi(self, app: Any, **options: Any) -> WSGIMiddleware:
        return WSGIMiddleware(app, telemetry=self.telemetry, clock=self.clock, **options)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def simple(environ: Any, start_response: Any) -> list[bytes]:
    start_response("200 OK", [])
    return [b"ok"]


def test_every_attribute_through_wsgi(recorder: Recorder) -> None:
    clock = recorder.clock

    def app(environ: Any, start_response: Any) -> Iterator[bytes]:
        clock.advance(0.25)
        environ["sojourn.route"] = "/users/{id}"
        start_response("201 Created", [])
        yield b"a"
        clock.advance(0.5)
        yield b"b"

    environ = environ_of(HEADERS, REQUEST_METHOD="POST", SCRIPT_NAME="/app", PATH_INFO="/us ers/\xc3\xa9")
    answer = call_wsgi(recorder.wsgi(app, clock_offset=0.03), environ)
    span = recorder.span()
    assert recorder.attributes() == {
        "http.request.method": "POST",
        "url.path": "/app/us%20ers/%C3%A9",
        "url.scheme": "http",
        "network.protocol.version": "1.1",
        "server.address": "shop.example",
        "server.port": 8443,
        "http.request.header.x-request-id": ("abc123",),
        "http.response.status_code": 201,
        "http.route": "/users/{id}",
        "queueing.delay": pytest.approx(0.07),
        "queueing.delay.raw": 0.1,
        "queueing.clock_offset": 0.03,
        "queueing.status": "ok",
        "queueing.service_time": 0.25,
        "queueing.worker": answer.headers["x-worker"],
    }
    assert answer.queueing_delay == 0.1  # the header carries the raw value
    assert span.name == "POST /users/{id}"
    assert span.kind is trace.SpanKind.SERVER
    assert span.start_time == NOW_US * 1000
    assert span.end_time == NOW_US * 1000 + 750_000_000
    assert [(event.name, event.timestamp) for event in span.events] == [
        ("http.proxy.request.started", 1_767_225_599_900_000_000)
    ]
    assert span.parent is not None
    assert (span.parent.trace_id, span.parent.span_id) == (TRACE_ID, 0xB7AD6B7169203331)
    assert span.status.is_unset


def test_every_attribute_through_asgi(recorder: Recorder) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        recorder.clock.advance(0.25)
        await send({"type": "http.response.start", "status": 503, "headers": [(b"x-route", b"/reported")]})
        await send({"type": "http.response.body"})

    stack = ASGIMiddleware(app, telemetry=recorder.telemetry, clock=recorder.clock)
    scope = scope_of(HEADERS[1:], http_version="2", scheme="https", raw_path=b"/a%2Fb?x=1", method="BREW")
    call_asgi(stack, scope)
    attributes = recorder.attributes()
    worker = attributes.pop("queueing.worker")
    assert worker.isdecimal()
    assert attributes == {
        "http.request.method": "_OTHER",
        "http.request.method_original": "BREW",
        "url.path": "/a%2Fb",
        "url.scheme": "https",
        "network.protocol.version": "2",
        "server.address": "127.0.0.1",
        "server.port": 8000,
        "http.request.header.x-request-id": ("abc123",),
        "http.response.status_code": 503,
        "http.route": "/reported",
        "error.type": "503",
        "queueing.delay": 0.1,
        "queueing.delay.raw": 0.1,
        "queueing.clock_offset": 0.0,
        "queueing.status": "ok",
        "queueing.service_time": 0.25,
    }
    assert recorder.span().name == "HTTP /reported"
    assert [point.count for point in recorder.histogram()] == [1]
    assert recorder.span().parent is not None
    assert recorder.span().status.status_code is trace.StatusCode.ERROR


@pytest.mark.parametrize(
    ("stamp", "status"),
    [
        ("t=1767225599.900", "ok"),
        ("", "missing"),
        ("a,b", "unparsable"),
        ("junk", "unparsable"),
        ("123", "unparsable"),
        ("t=1767229999.000", "future"),
        ("t=1700000000.000", "stale"),
    ],
)
def test_status_of_the_stamp(recorder: Recorder, stamp: str, status: str) -> None:
    call_wsgi(recorder.wsgi(simple), environ_of([["X-Request-Start", stamp]]))
    attributes = recorder.attributes()
    assert attributes["queueing.status"] == status
    measured = status == "ok"
    assert ("queueing.delay" in attributes) == ("queueing.delay.raw" in attributes) == measured
    assert len(recorder.span().events) == measured
    assert len(recorder.histogram()) == measured


@pytest.mark.parametrize(
    ("host", "address", "port"),
    [
        ("shop.example", "shop.example", None),
        ("shop.example:80", "shop.example", 80),
        ("[::1]:8000", "::1", 8000),
        ("[::1]", "::1", None),
        ("10.0.0.1:http", "10.0.0.1:http", None),
    ],
)
def test_server_address(recorder: Recorder, host: str, address: str, port: int | None) -> None:
    call_wsgi(recorder.wsgi(simple), environ_of([["Host", host]]))
    attributes = recorder.attributes()
    assert (attributes["server.address"], attributes.get("server.port")) == (address, port)


def test_mark_started_moves_the_start_of_the_span(recorder: Recorder) -> None:
    def app(environ: Any, start_response: Any) -> list[bytes]:
        recorder.clock.advance(2)
        mark_started()
        recorder.clock.advance(1)
        return simple(environ, start_response)

    call_wsgi(recorder.wsgi(app), environ_of(HEADERS))
    span = recorder.span()
    assert span.start_time == NOW_US * 1000 + 2_000_000_000
    assert span.end_time == NOW_US * 1000 + 3_000_000_000
    assert recorder.attributes()["queueing.delay"] == pytest.approx(2.1)
    assert recorder.attributes()["queueing.service_time"] == 1


def test_mark_started_after_the_headers_changes_nothing(recorder: Recorder) -> None:
    def app(environ: Any, start_response: Any) -> Iterator[bytes]:
        start_response("200 OK", [])
        yield b"x"
        recorder.clock.advance(2)
        mark_started()

    call_wsgi(recorder.wsgi(app), environ_of(HEADERS))
    assert recorder.span().start_time == NOW_US * 1000
    assert recorder.attributes()["queueing.delay"] == 0.1


def test_histogram_has_our_boundaries_and_low_cardinality(recorder: Recorder) -> None:
    stack = recorder.wsgi(simple, route=lambda environ: "/users/{id}")
    for number in range(3):
        call_wsgi(stack, environ_of(HEADERS, PATH_INFO=f"/users/{number}"))
    (point,) = recorder.histogram()
    assert point.attributes == {
        "http.request.method": "GET",
        "http.route": "/users/{id}",
        "http.response.status_code": 200,
    }
    assert point.count == 3
    assert point.sum == pytest.approx(0.3)
    assert list(point.explicit_bounds) == [
        *(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75),
        *(1, 2.5, 5, 7.5, 10, 15, 30, 60, 120),
    ]
    assert point.bucket_counts[8] == 3  # 0.1 s is the upper, inclusive bound of the ninth bucket


def test_negative_delay_is_in_the_span_and_not_in_the_histogram(
    recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    call_wsgi(recorder.wsgi(simple), environ_of([["X-Request-Start", "t=1767225600.250"]]))
    assert recorder.attributes()["queueing.delay"] == -0.25
    assert recorder.histogram() == []
    assert caplog.text == ""


def test_the_apps_own_spans_are_children_in_call_body_and_close(recorder: Recorder) -> None:
    tracer = recorder.tracer_provider.get_tracer("app")

    def app(environ: Any, start_response: Any) -> Iterator[bytes]:
        tracer.start_span("called").end()
        start_response("200 OK", [])

        def body() -> Iterator[bytes]:
            try:
                tracer.start_span("iterated").end()
                yield b"x"
            finally:
                tracer.start_span("closed").end()

        return body()

    call_wsgi(recorder.wsgi(app), environ_of(HEADERS))
    spans = {span.name: span for span in recorder.exporter.get_finished_spans()}
    assert set(spans) == {"called", "iterated", "closed", "GET"}
    for name in ("called", "iterated", "closed"):
        parent = spans[name].parent
        assert parent is not None
        assert parent.span_id == spans["GET"].context.span_id
    assert not trace.get_current_span().get_span_context().is_valid  # no context remains attached


def test_an_unsampled_request_is_measured_all_the_same() -> None:
    recorder = Recorder(sampler=sampling.ALWAYS_OFF)
    answer = call_wsgi(recorder.wsgi(simple), environ_of(HEADERS))
    assert answer.queueing_delay == 0.1
    assert recorder.exporter.get_finished_spans() == ()
    assert recorder.histogram()[0].count == 1


def test_only_a_tracer_or_only_a_meter_will_do(recorder: Recorder) -> None:
    recorder.telemetry = Telemetry(tracer_provider=recorder.tracer_provider)
    call_wsgi(recorder.wsgi(simple), environ_of(HEADERS))
    assert recorder.histogram() == []
    assert recorder.attributes()["queueing.delay"] == 0.1

    other = Recorder()
    other.telemetry = Telemetry(meter_provider=MeterProvider([reader := InMemoryMetricReader()]))
    call_wsgi(other.wsgi(simple), environ_of(HEADERS))
    assert other.exporter.get_finished_spans() == ()
    assert reader.get_metrics_data() is not None


@pytest.mark.parametrize(
    "header",
    [
        ["traceparent", "00-junk-junk-zz"],
        ["traceparent", "\x00" * 50],
        ["traceparent", f"00-{0:032x}-{0:016x}-01"],
        ["tracestate", "=,=,;" * 2000],
        ["baggage", "%%%=;;,," * 2000],
        ["X-Request-ID", "\xff" * 9000],
        ["Host", ":::::"],
        ["Host", "[" * 500 + ":99999999"],
    ],
    ids=lambda header: f"{header[0]} {header[1][:6]!a}",
)
def test_hostile_headers_cost_neither_the_answer_nor_the_span(recorder: Recorder, header: list[str]) -> None:
    environ = environ_of([["X-Request-Start", "t=1767225599.900"], header])
    assert call_wsgi(recorder.wsgi(simple), environ).queueing_delay == 0.1
    assert recorder.attributes()["queueing.delay"] == 0.1


def test_telemetry_of_the_wrong_type_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match="telemetry must be"):
        WSGIMiddleware(simple, telemetry=TracerProvider())  # type: ignore[arg-type]


class Broken:
    """A provider, tracer, meter and exporter of which nothing works."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"{name} is broken")


class HalfBroken:
    """A provider whose spans start, and then fail at everything."""

    def get_tracer(self, name: str) -> Any:
        return self

    def start_span(self, *args: Any, **more: Any) -> Any:
        return trace.NonRecordingSpan(trace.INVALID_SPAN_CONTEXT) if not more else BrokenSpan()


class BrokenSpan(trace.NonRecordingSpan):
    def __init__(self) -> None:
        super().__init__(trace.INVALID_SPAN_CONTEXT)

    def is_recording(self) -> bool:
        raise RuntimeError("the span is broken")


@pytest.mark.parametrize("provider", [Broken(), HalfBroken()], ids=["at the start", "at the end"])
def test_broken_telemetry_never_breaks_an_answer(provider: Any, caplog: pytest.LogCaptureFixture) -> None:
    stack = WSGIMiddleware(simple, telemetry=Telemetry(tracer_provider=provider), clock=ManualClock())
    for _ in range(3):
        answer = call_wsgi(stack, environ_of(HEADERS))
        assert (answer.status, answer.body, answer.queueing_delay) == (200, b"ok", 0.1)
    warnings = [record for record in caplog.records if record.name == "sojourn_middleware"]
    assert len(warnings) == 1  # not one a request
    assert warnings[0].levelno == logging.WARNING


class Instrumented:
    """A Recorder, and OpenTelemetry's own way to make a span the current one around an app."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.outer: list[Any] = []

    def wsgi(self, app: Any, **options: Any) -> Any:
        """The app behind the middleware behind an instrumentation that ends its span when the body is closed."""
        inner = self.recorder.wsgi(app, **options)

        def instrumented(environ: Any, start_response: Any) -> Iterator[bytes]:
            span = self.recorder.tracer_provider.get_tracer("stock").start_span("GET", kind=trace.SpanKind.SERVER)
            self.outer.append(span)
            with trace.use_span(span, end_on_exit=True):
                body = inner(environ, start_response)
                yield from body
                if hasattr(body, "close"):
                    body.close()

        return instrumented


OUTER = {
    "queueing.delay": pytest.approx(0.07),
    "queueing.delay.raw": 0.1,
    "queueing.clock_offset": 0.03,
    "queueing.status": "ok",
    "queueing.service_time": 0.25,
    "queueing.worker": str(os.getpid()),
    "http.request.header.x-request-id": ("abc123",),
}


@pytest.mark.parametrize("lazy", [False, True])
def test_span_of_the_instrumentation_gets_the_attributes(recorder: Recorder, lazy: bool) -> None:
    spans: list[Any] = []

    def app(environ: Any, start_response: Any) -> Any:
        spans.append(trace.get_current_span())
        recorder.clock.advance(0.25)
        environ["sojourn.route"] = "/users/{id}"
        start_response("200 OK", [])
        return iter([b"a", b"b"]) if lazy else [b"a", b"b"]

    instrumented = Instrumented(recorder)
    answer = call_wsgi(instrumented.wsgi(app, clock_offset=0.03), environ_of(HEADERS))
    assert answer.body == b"ab"
    assert spans == instrumented.outer
    span = recorder.span()  # the only one
    assert span.name == "GET"
    assert recorder.attributes() == OUTER
    assert [(event.name, event.timestamp) for event in span.events] == [
        ("http.proxy.request.started", 1_767_225_599_900_000_000)
    ]
    (point,) = recorder.histogram()
    assert (point.count, point.sum) == (1, pytest.approx(0.07))
    assert point.attributes == {
        "http.request.method": "GET", "http.route": "/users/{id}", "http.response.status_code": 200
    }  # fmt: skip


def test_span_of_the_instrumentation_gets_the_attributes_of_an_error(recorder: Recorder) -> None:
    def app(environ: Any, start_response: Any) -> Any:
        raise LookupError("on request")

    instrumented = Instrumented(recorder)
    with pytest.raises(LookupError):
        call_wsgi(instrumented.wsgi(app), environ_of(HEADERS))
    attributes = recorder.attributes()
    assert (attributes["queueing.delay.raw"], "queueing.service_time" in attributes) == (0.1, False)


@pytest.mark.parametrize("interface", ["wsgi", "asgi"])
def test_stock_instrumentation_around_the_middleware_has_the_only_span(recorder: Recorder, interface: str) -> None:
    """Its span ends with the last message of the body, before the app returns."""
    stock = pytest.importorskip(f"opentelemetry.instrumentation.{interface}").OpenTelemetryMiddleware
    if interface == "wsgi":

        def app(environ: Any, start_response: Any) -> list[bytes]:
            recorder.clock.advance(0.25)
            return simple(environ, start_response)

        wrapped = stock(recorder.wsgi(app, clock_offset=0.03), tracer_provider=recorder.tracer_provider)
        assert call_wsgi(wrapped, environ_of(HEADERS)).body == b"ok"
    else:

        async def asgi(scope: Any, receive: Any, send: Any) -> None:
            recorder.clock.advance(0.25)
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"ok"})

        inner = ASGIMiddleware(asgi, telemetry=recorder.telemetry, clock=recorder.clock, clock_offset=0.03)
        options = {"exclude_spans": ["send", "receive"]}
        call_asgi(stock(inner, tracer_provider=recorder.tracer_provider, **options), scope_of(HEADERS))
    span = recorder.span()
    assert {name: value for name, value in recorder.attributes().items() if name in OUTER} == OUTER
    assert span.kind is trace.SpanKind.SERVER
    assert span.parent is not None
    assert span.parent.trace_id == TRACE_ID


def test_span_that_the_instrumentation_does_not_sample_remains_the_only_one() -> None:
    recorder = Recorder(sampler=sampling.ALWAYS_OFF)
    sampled = Recorder()
    instrumented = Instrumented(recorder)
    instrumented.recorder.telemetry = sampled.telemetry
    call_wsgi(instrumented.wsgi(simple), environ_of(HEADERS))
    assert not instrumented.outer[0].is_recording()
    assert sampled.exporter.get_finished_spans() == ()


def test_remote_span_that_is_current_is_a_parent(recorder: Recorder) -> None:
    remote = trace.SpanContext(TRACE_ID, 0xB7AD6B7169203331, is_remote=True, trace_flags=trace.TraceFlags(1))
    with trace.use_span(trace.NonRecordingSpan(remote)):
        call_wsgi(recorder.wsgi(simple), environ_of(HEADERS))
    span = recorder.span()
    assert span.parent is not None
    assert (span.kind, span.parent.span_id) == (trace.SpanKind.SERVER, 0xB7AD6B7169203331)


def test_span_of_the_instrumentation_gets_the_attributes_without_any_global_provider(recorder: Recorder) -> None:
    with recorder.tracer_provider.get_tracer("stock").start_as_current_span("GET"):
        call_wsgi(WSGIMiddleware(simple, clock=recorder.clock), environ_of(HEADERS))
    assert recorder.attributes()["queueing.delay.raw"] == 0.1
