"""Spans and the histogram over OTLP/HTTP from real servers to a real receiver."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from collector_support import eventually, fetch, fetch_parallel, gunicorn, served
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from sojourn_lab.runtime.process import free_port


class Collector:
    """A small real OTLP/HTTP receiver."""

    def __init__(self) -> None:
        self.traces: list[ExportTraceServiceRequest] = []
        self.metrics: list[ExportMetricsServiceRequest] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                kinds: dict[str, tuple[Any, Any]] = {
                    "/v1/traces": (ExportTraceServiceRequest, collector.traces),
                    "/v1/metrics": (ExportMetricsServiceRequest, collector.metrics),
                }
                message, received = kinds[self.path]
                received.append(message.FromString(body))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_arguments: Any) -> None:
                """Nothing: a test has no use for it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    def spans(self) -> list[Any]:
        """Every span received."""
        return [
            span
            for request in list(self.traces)
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def last_points(self) -> dict[str, list[Any]]:
        """The newest histogram points of each instance, which are cumulative, by service.instance.id."""
        newest: dict[str, list[Any]] = {}
        for request in list(self.metrics):
            for resource in request.resource_metrics:
                names = {entry.key: entry.value.string_value for entry in resource.resource.attributes}
                for scope in resource.scope_metrics:
                    for metric in scope.metrics:
                        if metric.name == "queueing.delay":
                            assert metric.unit == "s"
                            newest[names["service.instance.id"]] = list(metric.histogram.data_points)
        return newest


@pytest.fixture
def collector() -> Iterator[Collector]:
    receiver = Collector()
    yield receiver
    receiver.close()


def test_otlp_from_two_forked_workers(tmp_path: Path, collector: Collector) -> None:
    env = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint,
        "OTEL_BSP_SCHEDULE_DELAY": "50",
        "OTEL_METRIC_EXPORT_INTERVAL": "100",
    }
    command = gunicorn("bare_app:application", "--workers", "2", "--preload")
    with served(command, tmp_path, env) as (port, _):
        workers: set[str] = set()
        sent = 0
        while len(workers) < 2 and sent < 80:
            workers |= {answer.headers["x-worker"] for answer in fetch_parallel(port, "/sleep", 4)}
            sent += 4
        assert len(workers) == 2
        eventually(lambda: len(collector.spans()) == sent, "the spans")

        def counted() -> int:
            return sum(point.count for points in collector.last_points().values() for point in points)

        eventually(lambda: counted() == sent, "the histogram to have counted every request")
    span = collector.spans()[0]
    names = {entry.key for entry in span.attributes}
    assert {"queueing.delay", "queueing.status", "queueing.worker", "url.path"} <= names
    assert [event.name for event in span.events] == ["http.proxy.request.started"]
    points = collector.last_points()
    assert len(points) == 2  # two processes, two streams that do not overwrite each other
    assert all(points[0].explicit_bounds[:4] == [0.0005, 0.001, 0.0025, 0.005] for points in points.values())


def test_otlp_sends_what_it_holds_when_the_server_stops(tmp_path: Path, collector: Collector) -> None:
    env = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": collector.endpoint + "/v1/traces"}
    env["OTEL_BSP_SCHEDULE_DELAY"] = "600000"
    with served(gunicorn("bare_app:application"), tmp_path, env) as (port, process):
        fetch(port)
        process.send_signal(signal.SIGTERM)
        process.wait(20)
    assert len(collector.spans()) == 1
    assert collector.metrics == []  # the endpoint was for traces only


def test_otlp_without_a_receiver_does_not_disturb_the_app(tmp_path: Path) -> None:
    env = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{free_port()}",
        "OTEL_BSP_SCHEDULE_DELAY": "20",
        "OTEL_EXPORTER_OTLP_TIMEOUT": "1",
    }
    with served(gunicorn("bare_app:application"), tmp_path, env) as (port, process):
        assert fetch(port).body == b"hello"
        eventually(lambda: "Failed to export spans" in process.last_lines(400), "the exporter to complain")
        assert fetch(port).body == b"hello"


@pytest.mark.parametrize(
    ("env", "complaint"),
    [
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "no spans are sent: the OTLP endpoint is set to gRPC"),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none"}, None),
    ],
    ids=["grpc", "none"],
)
def test_otlp_that_is_not_for_us(
    tmp_path: Path, collector: Collector, env: dict[str, str], complaint: str | None
) -> None:
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint, "OTEL_BSP_SCHEDULE_DELAY": "20", **env}
    with served(gunicorn("bare_app:application"), tmp_path, env) as (port, process):
        assert fetch(port).body == b"hello"
        process.send_signal(signal.SIGTERM)
        process.wait(20)
        log = process.last_lines(400)
    assert collector.traces == []
    assert collector.metrics == []
    assert "Traceback" not in log
    assert log.count(complaint) == 1 if complaint else "sojourn_middleware" not in log
