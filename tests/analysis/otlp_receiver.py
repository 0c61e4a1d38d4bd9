"""An OTLP/HTTP receiver that keeps what it receives."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


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
