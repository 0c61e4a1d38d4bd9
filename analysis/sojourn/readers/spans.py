"""Spans: OTLP/JSON lines (one export request an object) into a frame, one row per SERVER span.

What else an instrumentation reports of a queue is read as well:

- OpenTelemetry's eBPF instrumentation (and Grafana Beyla) divides a SERVER span into two INTERNAL children, ``in
  queue`` and ``processing``. The work begins with the second.
- vLLM reports ``gen_ai.latency.time_in_queue`` (s) of a span that begins when the request arrives in it.
- Sentry's SDKs report ``http.server.request.time_in_queue`` (ms), the app's clock less the stamp, in spans and in their
  transactions, which are read as lines too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from sojourn.model.errors import SojournError
from sojourn.model.frame import INSTANT
from sojourn.readers.inputs import opened_inputs
from sojourn.readers.lines import blocks_of_lines

SERVER = 2
SPANS_SCHEMA: dict[str, pl.DataType] = {
    "request_id": pl.String(),  # from the attribute http.request.header.x-request-id
    "trace_id": pl.String(),
    "span_id": pl.String(),
    "parent_span_id": pl.String(),
    "service_name": pl.String(),
    "span_start": INSTANT,  # the app's wall clock
    "span_end": INSTANT,  # the end of the body: the worker was busy until then
    "span_seconds": pl.Float64(),  # end - start, s
    "span_service_time": pl.Float64(),  # start to response headers, s
    "span_queueing_delay": pl.Float64(),  # the app's clock less the stamp, s, signed
    "span_waited": pl.Float64(),  # in the server's own queue, before ``span_start``, s; null: it reports none
    "span_worker": pl.String(),
    "span_route": pl.String(),  # the attribute http.route
}


# Errors of decoding; the last for hundreds of nested brackets.
NOT_AN_EXPORT = (msgspec.MsgspecError, UnicodeError, RecursionError)
IN_QUEUE, PROCESSING = "in queue", "processing"  # children of a span, by OpenTelemetry's eBPF instrumentation
TIME_IN_QUEUE = "gen_ai.latency.time_in_queue"  # vLLM's, s
SENTRY_QUEUE = "http.server.request.time_in_queue"  # ms
SENTRY_SERVER = "http.server"
ROUNDING_NS = 1_000
LATEST_S = 9_000_000_000.0
INTERNAL = (1, "SPAN_KIND_INTERNAL")
DEEPEST = 8  # depth of nested lists in an attribute; deeper ones are left out


class Attribute(msgspec.Struct):
    """A key and its value, an object whose key is its type."""

    key: str
    value: dict[str, Any] = {}


class Event(msgspec.Struct, rename="camel"):
    """An event of a span."""

    name: str = ""
    time_unix_nano: int | str = 0


class Status(msgspec.Struct):
    """The status of a span."""

    code: int | str = 0
    message: str = ""


class Span(msgspec.Struct, rename="camel"):
    """A span in OTLP/JSON."""

    trace_id: str = ""
    span_id: str = ""
    parent_span_id: str = ""
    name: str = ""
    kind: int | str = 0
    start_time_unix_nano: int | str = 0
    end_time_unix_nano: int | str = 0
    attributes: list[Attribute] = []
    events: list[Event] = []
    status: Status = msgspec.field(default_factory=Status)


class Scope(msgspec.Struct):
    """Spans of one instrumentation library."""

    spans: list[Span] = []


class Resource(msgspec.Struct):
    """The resource that emitted the spans."""

    attributes: list[Attribute] = []


class ResourceSpans(msgspec.Struct, rename="camel"):
    """Spans of one resource."""

    resource: Resource = msgspec.field(default_factory=Resource)
    scope_spans: list[Scope] = []


class TraceContext(msgspec.Struct):
    """The span of a transaction of Sentry's."""

    trace_id: str = ""
    span_id: str = ""
    parent_span_id: str | None = None
    op: str = ""
    data: dict[str, Any] = {}


class Contexts(msgspec.Struct):
    """The contexts of a transaction of Sentry's."""

    trace: TraceContext | None = None


class SentryRequest(msgspec.Struct):
    """The request of a transaction of Sentry's."""

    headers: dict[str, Any] | list[Any] = {}


class Transaction(msgspec.Struct):
    """A transaction of Sentry's: the JSON of its event."""

    transaction: str = ""
    start_timestamp: float = 0.0
    timestamp: float = 0.0
    contexts: Contexts = msgspec.field(default_factory=Contexts)
    request: SentryRequest = msgspec.field(default_factory=SentryRequest)


class Export(msgspec.Struct, rename="camel"):
    """One export request, a line."""

    resource_spans: list[ResourceSpans] = []


def read_spans(paths: Sequence[str | os.PathLike[str] | Path]) -> pl.DataFrame:
    """Read the SERVER spans of OTLP/JSON-lines files, plain or compressed, columns as in ``SPANS_SCHEMA``.

    Lines that are neither an export request nor a transaction of Sentry's, and spans with invalid times, are skipped:
    spans only add to the log.
    ``request_id`` is null if the app did not record it.

    Raises:
        SojournError: a file cannot be opened.
    """
    decoder = msgspec.json.Decoder(Export, strict=False)
    rows: list[tuple[Any, ...]] = []
    frames: list[pl.DataFrame] = []
    with closing(opened_inputs([os.fspath(path) for path in paths])) as inputs:
        if inputs.stores:
            raise SojournError(f"{inputs.stores[0]}: --spans takes files; spans of a store are read with its requests")
        for log in inputs.logs:
            for block in blocks_of_lines(log):
                for line in block.lines.to_list():
                    rows.extend(_rows(decoder, line))
                if len(rows) > 200_000:
                    frames.append(pl.DataFrame(rows, schema=SPANS_SCHEMA, orient="row"))
                    rows = []
    return pl.concat([*frames, pl.DataFrame(rows, schema=SPANS_SCHEMA, orient="row")])


def spans_of_lines(lines: bytes) -> pl.DataFrame:
    """Return the SERVER spans of whole OTLP/JSON lines, as ``read_spans`` does."""
    decoder = msgspec.json.Decoder(Export, strict=False)
    rows = [row for line in lines.splitlines() for row in _rows(decoder, line.decode("utf-8", "replace"))]
    return pl.DataFrame(rows, schema=SPANS_SCHEMA, orient="row")


def _rows(decoder: msgspec.json.Decoder[Export], line: str | None) -> Iterator[tuple[Any, ...]]:
    try:
        export = decoder.decode(line or "")
    except NOT_AN_EXPORT:
        return
    if not export.resource_spans and line and '"start_timestamp"' in line:
        yield from _transaction(line)
    for resource in export.resource_spans:
        service = values_of(resource.resource.attributes).get("service.name")
        for scope in resource.scope_spans:
            processing = _processing(scope.spans)
            for span in scope.spans:
                row = _row(span, service, processing.get(span.span_id))
                if row is not None:
                    yield row


def _processing(spans: Sequence[Span]) -> dict[str, int]:
    """Return id of a span -> begin of its processing, ns, where two children divide it into queue and processing.

    Spans of these names that do not divide their parent are those of another library.
    """
    children: dict[str, dict[str, tuple[int, int]]] = {}
    for span in spans:
        if span.name in (IN_QUEUE, PROCESSING) and span.kind in INTERNAL and (bounds := span_bounds(span)):
            children.setdefault(span.parent_span_id, {})[span.name] = bounds
    begins = {}
    for span in spans:
        bounds, parts = span_bounds(span), children.get(span.span_id, {})
        if bounds is None or len(parts) < 2:
            continue
        (begin, waited), (started, end) = parts[IN_QUEUE], parts[PROCESSING]
        gaps = (begin - bounds[0], started - waited, end - bounds[1])
        if all(abs(gap) <= ROUNDING_NS for gap in gaps):
            begins[span.span_id] = started
    return begins


def _row(span: Span, service: Any, processing: int | None) -> tuple[Any, ...] | None:
    """Return the row of a SERVER span; ``processing``: when its processing begins, ns, if children divide it."""
    if span.kind not in (SERVER, "SPAN_KIND_SERVER"):
        return None
    bounds = span_bounds(span)
    if bounds is None:
        return None
    begin, end = bounds
    values = values_of(span.attributes)
    waited = _seconds(values.get(TIME_IN_QUEUE))
    if processing is not None:
        waited = (processing - begin) / 1e9
    start = begin + round((waited or 0.0) * 1e9)
    if waited is not None and not begin <= start <= end:
        start, waited = begin, None
    return (
        _text(first_value(values.get("http.request.header.x-request-id"))),
        span.trace_id, span.span_id, span.parent_span_id or None,
        _text(service),
        start // 1000, end // 1000, (end - start) / 1e9,
        _seconds(values.get("queueing.service_time")),
        _queueing_delay(values),
        waited,
        _text(values.get("queueing.worker")),
        _text(values.get("http.route")),
    )  # fmt: skip


def _queueing_delay(values: dict[str, Any]) -> float | None:
    """Return the app's clock less the stamp, s."""
    delay = _seconds(values.get("queueing.delay.raw", values.get("queueing.delay")))
    if delay is None and (reported := _seconds(values.get(SENTRY_QUEUE))) is not None:
        return reported / 1e3
    return delay


def _transaction(line: str) -> Iterator[tuple[Any, ...]]:
    """Yield the row of a transaction of Sentry's that is a request to a server."""
    try:
        event = msgspec.json.decode(line, type=Transaction, strict=False)
    except NOT_AN_EXPORT:
        return
    trace = event.contexts.trace
    start, end = event.start_timestamp, event.timestamp
    if trace is None or trace.op != SENTRY_SERVER or not 0 < start <= end < LATEST_S:
        return
    headers = event.request.headers
    pairs = headers.items() if isinstance(headers, dict) else [each for each in headers if _is_pair(each)]
    request_id = next((value for name, value in pairs if str(name).lower() == "x-request-id"), None)
    yield (
        _text(first_value(request_id)),
        trace.trace_id, trace.span_id, trace.parent_span_id or None,
        None,
        round(start * 1e6), round(end * 1e6), end - start,
        None,
        _queueing_delay(trace.data),
        None, None,
        _text(trace.data.get("http.route")) or event.transaction or None,
    )  # fmt: skip


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _seconds(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e9:
        return None
    return float(value)


def span_bounds(span: Span) -> tuple[int, int] | None:
    """Return (start, end) in unix nanoseconds; None if invalid."""
    try:
        start, end = int(span.start_time_unix_nano), int(span.end_time_unix_nano)
    except ValueError:
        return None
    return (start, end) if 0 < start <= end < 1 << 63 else None


def first_value(value: Any) -> Any:
    """Return the first of a list (a header is one), or the value itself."""
    if isinstance(value, list):
        return value[0] if value else None
    return value


def values_of(attributes: list[Attribute]) -> dict[str, Any]:
    """Return attributes as plain values by key."""
    return {a.key: _value(a.value) for a in attributes}


def _value(value: dict[str, Any], depth: int = 0) -> Any:
    for kind, inner in value.items():
        if kind == "arrayValue":
            values = inner.get("values", []) if isinstance(inner, dict) else []
            return [_value(v, depth + 1) for v in values if isinstance(v, dict)] if depth < DEEPEST else []
        return inner
    return None
