"""Spans: OTLP/JSON lines (one export request an object) into a frame, one row per SERVER span."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from sojourn.frame import INSTANT
from sojourn.readers.lines import blocks_of_lines
from sojourn.readers.sources import opened_inputs

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
    "span_worker": pl.String(),
    "span_route": pl.String(),  # the attribute http.route
}


class _Attribute(msgspec.Struct):
    key: str
    value: dict[str, Any] = {}


class _Span(msgspec.Struct, rename="camel"):
    trace_id: str = ""
    span_id: str = ""
    parent_span_id: str = ""
    kind: int | str = 0
    start_time_unix_nano: int | str = 0
    end_time_unix_nano: int | str = 0
    attributes: list[_Attribute] = []


class _Scope(msgspec.Struct):
    spans: list[_Span] = []


class _Resource(msgspec.Struct):
    attributes: list[_Attribute] = []


class _ResourceSpans(msgspec.Struct, rename="camel"):
    resource: _Resource = msgspec.field(default_factory=_Resource)
    scope_spans: list[_Scope] = []


class _Export(msgspec.Struct, rename="camel"):
    resource_spans: list[_ResourceSpans] = []


def read_spans(paths: Sequence[str | os.PathLike[str] | Path]) -> pl.DataFrame:
    """SERVER spans of OTLP/JSON-lines files, plain or compressed, columns as in ``SPANS_SCHEMA``.

    A line that is not an export request is passed over, and so is a span whose times do not parse: a span only ever
    adds to what the log says. The frame's ``request_id`` is null where the app did not record it.

    Raises:
        SojournError: a file cannot be opened.
    """
    decoder = msgspec.json.Decoder(_Export, strict=False)
    rows: list[tuple[Any, ...]] = []
    frames: list[pl.DataFrame] = []
    inputs = opened_inputs([os.fspath(p) for p in paths])
    try:
        for log in inputs.logs:
            for block in blocks_of_lines(log):
                for line in block.lines.to_pylist():
                    rows.extend(_rows(decoder, line))
                if len(rows) > 200_000:
                    frames.append(pl.DataFrame(rows, schema=SPANS_SCHEMA, orient="row"))
                    rows = []
    finally:
        inputs.close()
    return pl.concat([*frames, pl.DataFrame(rows, schema=SPANS_SCHEMA, orient="row")])


def _rows(decoder: msgspec.json.Decoder[_Export], line: str | None) -> Iterator[tuple[Any, ...]]:
    try:
        export = decoder.decode(line or "")
    except (msgspec.MsgspecError, UnicodeError):
        return
    for resource in export.resource_spans:
        service = _values(resource.resource.attributes).get("service.name")
        for scope in resource.scope_spans:
            for span in scope.spans:
                row = _row(span, service)
                if row is not None:
                    yield row


def _row(span: _Span, service: Any) -> tuple[Any, ...] | None:
    if span.kind not in (SERVER, "SPAN_KIND_SERVER"):
        return None
    try:
        start, end = int(span.start_time_unix_nano), int(span.end_time_unix_nano)
    except ValueError:
        return None
    if not 0 < start <= end < 1 << 63:
        return None
    values = _values(span.attributes)
    request_id = values.get("http.request.header.x-request-id")
    if isinstance(request_id, list):
        request_id = request_id[0] if request_id else None
    return (
        _text(request_id),
        span.trace_id, span.span_id, span.parent_span_id or None,
        _text(service),
        start // 1000, end // 1000, (end - start) / 1e9,
        _seconds(values.get("queueing.service_time")),
        _seconds(values.get("queueing.delay.raw", values.get("queueing.delay"))),
        _text(values.get("queueing.worker")),
        _text(values.get("http.route")),
    )  # fmt: skip


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _seconds(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and abs(value) < 1e9 else None


def _values(attributes: list[_Attribute]) -> dict[str, Any]:
    return {a.key: _value(a.value) for a in attributes}


def _value(value: dict[str, Any]) -> Any:
    for kind, inner in value.items():
        if kind == "arrayValue":
            values = inner.get("values", []) if isinstance(inner, dict) else []
            return [_value(v) for v in values if isinstance(v, dict)]
        return inner
    return None
