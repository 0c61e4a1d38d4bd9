"""``docs/reference/metrics.md``: metrics, spans and counters of the parts, by the names in their code."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from sojourn.export.metrics import BUCKETS as EXPORTED_BUCKETS
from sojourn.export.metrics import METRICS, NATIVE_SCHEMA
from sojourn.host.sample import COUNTERS, SETTINGS
from sojourn_middleware import Telemetry, WSGIMiddleware
from sojourn_middleware.in_progress import OTEL_NAME
from sojourn_middleware.semantics import BUCKETS, HISTOGRAM, SCOPE, STAMP_EVENT
from sojourn_middleware.stamp import REASONS, Stamp

from sojourn_docs import NOTE, paragraph

ROOT = Path(__file__).parents[2]

HEAD = f"""# Metrics, spans and counters

{NOTE}

Metrics and spans that the parts emit while they run. Durations are seconds. The names are those in the code: the lists
below are made by sending requests through the middleware and reading its output.
"""

ATTRIBUTES = {
    "http.request.method": "a method that is not registered is `_OTHER`",
    "http.request.method_original": "the original method, only in that case",
    "url.path": "without the query",
    "url.scheme": "",
    "network.protocol.version": "",
    "server.address": "the Host header, else the server's listening address",
    "server.port": "",
    "http.request.header.x-request-id": "joins the span to the log",
    "http.response.status_code": "",
    "http.route": "the route's template, if the framework has one",
    "error.type": "class of the exception, or the status from 500 on",
    "queueing.status": "`ok`, or why there is no delay",
    "queueing.delay": "s; from the stamp to the app's start, less the clock offset that was configured",
    "queueing.delay.raw": "s; not corrected, as in `X-Queueing-Delay`",
    "queueing.clock_offset": "s; as configured",
    "queueing.service_time": "s; start to response headers, as in `X-Service-Time`",
    "queueing.worker": "as in `X-Worker`",
}
OF_THE_HISTOGRAM = ("http.request.method", "http.route", "http.response.status_code")
OF_THE_REQUESTS = ("http.request.method", "url.scheme")

AGENT = {
    "component_errors_total": "errors, by component",
    "component_discarded_events_total": "events discarded by a component; events that the store refuses are sent again",
    "buffer_discarded_events_total": "events dropped by a buffer",
    "buffer_size_bytes": "bytes in a buffer (spans: on disk, all else: in memory); `buffer_byte_size` in older agents",
    "buffer_byte_size": "the same",
    "buffer_size_events": "events in a buffer; `buffer_events` in older agents",
    "buffer_events": "the same",
}
_AGENT_NAME = re.compile(r"""["'`]((?:component|buffer)_[a-z_]*(?:total|bytes|size|events))["'`]""")

KERNEL = {
    "ListenOverflows": "a SYN or the last ACK of a handshake met a full accept queue",
    "ListenDrops": "the same, and every other reason; overflows are in it",
    "TCPReqQFullDrop": "a SYN met a full SYN queue and was dropped",
    "TCPReqQFullDoCookies": "a SYN met a full SYN queue and was answered with a cookie",
    "SyncookiesSent": "cookies sent",
    "SyncookiesRecv": "valid cookies that came back",
    "SyncookiesFailed": "invalid ones",
    "TCPSynRetrans": "SYNs and SYN-ACKs sent again",
    "TCPAbortOnMemory": "connections aborted for lack of memory",
    "TCPBacklogDrop": "segments dropped because a socket's backlog was full",
    "TCPDeferAcceptDrop": "last ACKs without data that a deferring socket ignored",
}


def page() -> str:
    """Return the whole page.

    Raises:
        ValueError: a name is emitted without a description here, or described and never emitted.
    """
    spans, measured = _emitted()
    attributes = {name for span in spans for name in span.attributes or ()}
    parts = [HEAD, "## The middleware", "", *_of_the_span(spans, attributes), "", *_of_metrics(measured)]
    parts += ["", "## The exporter", "", *_of_the_exporter()]
    parts += ["", "## The agent", "", *_of_the_agent(), "", "## The kernel", "", *_of_the_kernel(), ""]
    return "\n".join(parts)


def _of_the_span(spans: list[ReadableSpan], attributes: set[str]) -> list[str]:
    (kind,) = {span.kind.name for span in spans}
    (scope,) = {span.instrumentation_scope.name for span in spans if span.instrumentation_scope}
    events = {event.name for span in spans for event in span.events}
    if kind != "SERVER" or scope != SCOPE or STAMP_EVENT not in events:
        raise ValueError("the span differs from its description in sojourn_docs/metrics.py")
    statuses = sorted({Stamp(None, reason).status for reason in REASONS})
    return [
        paragraph(
            f"One span of kind `{kind}` a request, in the scope `{scope}`, named by method and route",
            "(`GET /users/{id}`). It begins at the app's start and lasts to the end of the body. The event",
            f"`{STAMP_EVENT}` has the stamp as its time.",
            f"`queueing.status` is `ok` or one of {', '.join(f'`{status}`' for status in statuses)}.",
        ),
        "",
        *_table("attribute", attributes, ATTRIBUTES),
    ]


def _of_metrics(metrics: list[Any]) -> list[str]:
    by_name = {metric.name: metric for metric in metrics}
    if set(by_name) != {HISTOGRAM, OTEL_NAME}:
        raise ValueError("the metrics differ from their description in sojourn_docs/metrics.py")
    return [*_of_the_histogram(by_name[HISTOGRAM]), "", *_of_the_requests(by_name[OTEL_NAME])]


def _of_the_requests(metric: Any) -> list[str]:
    if {name for point in metric.data.data_points for name in point.attributes} != set(OF_THE_REQUESTS):
        raise ValueError("the requests in progress differ from their description in sojourn_docs/metrics.py")
    return [
        paragraph(
            f"One up-down counter, `{metric.name}` ({metric.unit}): requests in progress, without WebSockets and",
            f"server-sent events. Attributes: {', '.join(f'`{name}`' for name in OF_THE_REQUESTS)}.",
        )
    ]


def _of_the_histogram(metric: Any) -> list[str]:
    points = list(metric.data.data_points)
    attributes = {name for point in points for name in point.attributes}
    bounds = {tuple(point.explicit_bounds) for point in points}
    if attributes != set(OF_THE_HISTOGRAM) or bounds != {tuple(BUCKETS)}:
        raise ValueError("the histogram differs from its description in sojourn_docs/metrics.py")
    what = f"{metric.description[0].lower()}{metric.description[1:]}"
    return [
        paragraph(
            f"One histogram, `{metric.name}` ({metric.unit}): {what}, less the clock offset that was configured.",
            f"Attributes: {', '.join(f'`{name}`' for name in OF_THE_HISTOGRAM)}. A negative delay, which is a",
            "disagreement of two clocks, is in the span and the header and not in here. Boundaries, s:",
        ),
        "",
        f"    {' '.join(f'{bound:g}' for bound in BUCKETS)}",
    ]


def _of_the_exporter() -> list[str]:
    rows = [
        f"| `{metric.name}` | {metric.kind} | {', '.join(f'`{label}`' for label in metric.labels)} | {metric.help} |"
        for metric in METRICS
    ]
    return [
        paragraph(
            "[`sojourn export`](export.md) serves these to Prometheus, and sends them by OTLP under the same names.",
            "Histograms have the classic buckets below, s, and the thresholds of the objectives; in OpenMetrics 2.0",
            f"they have native buckets as well (schema {NATIVE_SCHEMA}).",
            "A label without a value is omitted by Prometheus.",
        ),
        "",
        f"    {' '.join(f'{bound:g}' for bound in EXPORTED_BUCKETS)}",
        "",
        "| metric | kind | labels | |",
        "| --- | --- | --- | --- |",
        *rows,
    ]


def _of_the_agent() -> list[str]:
    used = set(_AGENT_NAME.findall(_sources()))
    return [
        paragraph(
            "Vector's own counters and gauges are at `127.0.0.1:9598/metrics`, of the agent for spans at port 9599,",
            "and, every 15 s, rows of",
            "[`pipeline_metrics`](sql.md#pipeline_metrics): `metric` is the name, `component` the part of the agent;",
            "of a histogram there are two rows, `…_count` and `…_sum`. Metrics that apps send to the agent for",
            "spans are shown at its address. The store's views and the dashboards read these:",
        ),
        "",
        *_table("metric", used, AGENT),
    ]


def _of_the_kernel() -> list[str]:
    return [
        paragraph(
            "Counters of TcpExt (`/proc/net/netstat`) that [`sojourn kernel`](kernel.md) and the samples of `sojourn",
            "capture --kernel` keep; they count since the network namespace began.",
        ),
        "",
        *_table("counter", set(COUNTERS), KERNEL),
        "",
        "Settings kept with them:",
        "",
        *(f"- `{name}`" for name in SETTINGS),
    ]


def _table(heading: str, there: set[str], described: dict[str, str]) -> list[str]:
    if there != set(described):
        raise ValueError(f"{heading}s and descriptions differ: {sorted(there ^ set(described))}")
    return [f"| {heading} | |", "| --- | --- |", *(f"| `{name}` | {text} |" for name, text in described.items())]


def _sources() -> str:
    files = sorted((ROOT / "collector/clickhouse").rglob("*.sql")) + sorted((ROOT / "dashboards").rglob("*.py"))
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


def _emitted() -> tuple[list[ReadableSpan], list[Any]]:
    """Return spans and metrics of requests that together have everything the middleware can emit."""
    exporter, reader, tracers = InMemorySpanExporter(), InMemoryMetricReader(), TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    app = WSGIMiddleware(_app, telemetry=Telemetry(tracers, MeterProvider([reader])))
    for method in ("GET", "BREW"):
        body = app(_environ(method), lambda *_: lambda _: None)
        list(body)
        getattr(body, "close", lambda: None)()
    data = reader.get_metrics_data()
    metrics = [] if data is None else data.resource_metrics[0].scope_metrics[0].metrics
    return list(exporter.get_finished_spans()), list(metrics)


def _app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    environ["sojourn.route"] = "/users/{id}"
    start_response("200 OK" if environ["REQUEST_METHOD"] == "GET" else "500 Oh", [("Content-Type", "text/plain")])
    return [b"hello"]


def _environ(method: str) -> dict[str, Any]:
    return {
        "REQUEST_METHOD": method, "PATH_INFO": "/users/7", "SERVER_NAME": "shop.example", "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1", "wsgi.url_scheme": "http", "HTTP_HOST": "shop.example:8080",
        "HTTP_X_REQUEST_ID": "abc", "HTTP_X_REQUEST_START": f"t={time.time() - 0.1:.3f}",
    }  # fmt: skip
