"""What an app's exporter does: spans in batches to an agent, each batch again until it is accepted."""

from __future__ import annotations

import http.client
import itertools
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from clickhouse_http import StandIn
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from vector_run import Vector

BATCH = 3  # spans
PAUSE = 0.02  # s between two batches of a flow
EACH = 0.1  # s between two requests


class Exporter:
    """Requests of a service at even distances, and their spans.

    Args:
        agent: the agent for spans.
        begin: when the first request ended.
        padding: bytes of an attribute of each span.

    Attributes:
        accepted: numbers of the requests whose spans the agent has acknowledged.
    """

    def __init__(self, agent: Vector, begin: datetime, padding: int = 0) -> None:
        self.accepted: list[int] = []
        self._agent = agent
        self._begin = begin.timestamp()
        self._padding = padding
        self._numbers = itertools.count()
        self._due: list[int] = []

    def end(self, number: int) -> float:
        """When a request ended, unix s."""
        return self._begin + (number + 0.5) * EACH

    @contextmanager
    def flowing(self) -> Iterator[None]:
        """Send a batch every few hundredths of a second while the body runs."""
        ended = threading.Event()

        def run() -> None:
            while not ended.wait(PAUSE):
                self.export()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join(30)

    def repeat(self) -> bool:
        """Send the last spans again; whether the agent accepted them."""
        return self._sent(self.accepted[-BATCH:])

    def export(self) -> bool:
        """Send a batch, the last one again if it was not accepted; whether the agent accepted it."""
        self._due = self._due or list(itertools.islice(self._numbers, BATCH))
        if not self._sent(self._due):
            return False
        self.accepted += self._due
        self._due = []
        return True

    def _sent(self, numbers: list[int]) -> bool:
        export = ExportTraceServiceRequest()
        resource = export.resource_spans.add()
        resource.resource.attributes.add(key="service.name").value.string_value = "shop"
        spans = resource.scope_spans.add().spans
        for number in numbers:
            span = spans.add()
            span.name, span.kind = "GET", 2
            span.trace_id, span.span_id = number.to_bytes(16, "big"), (number + 1).to_bytes(8, "big")
            span.end_time_unix_nano = round(self.end(number) * 1e9)
            span.start_time_unix_nano = span.end_time_unix_nano - 50_000_000
            span.attributes.add(key="http.request.header.x-request-id").value.string_value = f"shop-{number}"
            if self._padding:
                span.attributes.add(key="padding").value.string_value = "x" * self._padding
        request = urllib.request.Request(
            f"{self._agent.otlp}/v1/traces", export.SerializeToString(), {"Content-Type": "application/x-protobuf"}
        )
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError, http.client.HTTPException):
            return False

    def lines(self, numbers: list[int]) -> list[str]:
        """Lines of nginx's log about these requests."""
        return [json.dumps(self._record(number)) for number in numbers]

    def _record(self, number: int) -> dict[str, Any]:
        end = self.end(number)
        return {
            "time": f"{end:.3f}", "request_id": f"shop-{number}", "service": "shop", "route": "/r", "status": "200",
            "request_time": "0.060", "request_start": f"{end - 0.06:.3f}", "upstream_addr": "10.0.0.1:80",
            "upstream_status": "200", "upstream_connect_time": "0.000", "upstream_header_time": "0.060",
            "upstream_response_time": "0.060", "queueing_delay": "0.010", "service_time": "0.050", "proxy": "edge",
        }  # fmt: skip


def stored_numbers(store: StandIn) -> set[int]:
    """Numbers of the requests of an exporter whose spans are stored."""
    rows = store.ask(
        "SELECT DISTINCT toUInt64(substring(request_id, 6)) AS n FROM spans WHERE startsWith(request_id, 'shop-')"
    )
    return {int(row["n"]) for row in rows}
