"""OTLP/JSON lines as rows of the table ``spans``: every span of any kind, attributes, resource and events included."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa

from sojourn.model.redaction import redacted_attributes, redacting
from sojourn.readers.blocks import Reject
from sojourn.readers.inputs import LogInput
from sojourn.readers.lines import blocks_of_lines
from sojourn.readers.spans import NOT_AN_EXPORT, Export, Span, first_value, span_bounds, values_of

KINDS = ("unspecified", "internal", "server", "client", "producer", "consumer")
ERROR = (2, "STATUS_CODE_ERROR")
SECONDS = pa.decimal128(18, 6)
_TEXTS = pa.map_(pa.string(), pa.string())
SPAN_SCHEMA = pa.schema([
    ("start", pa.timestamp("ns", "UTC")), ("end", pa.timestamp("ns", "UTC")), ("trace_id", pa.string()),
    ("span_id", pa.string()), ("parent_span_id", pa.string()), ("request_id", pa.string()), ("service", pa.string()),
    ("name", pa.string()), ("kind", pa.string()), ("route", pa.string()), ("worker", pa.string()),
    ("status_code", pa.uint16()), ("error", pa.bool_()), ("status_message", pa.string()), ("queueing_delay", SECONDS),
    ("queueing_delay_raw", SECONDS), ("clock_offset", SECONDS), ("queueing_status", pa.string()),
    ("service_time", SECONDS), ("attributes", _TEXTS), ("resource", _TEXTS),
    ("events", pa.list_(pa.struct([("time", pa.timestamp("ns", "UTC")), ("name", pa.string())]))),
])  # fmt: skip

# Attributes that have a column of their own.
REQUEST_ID = "http.request.header.x-request-id"
TEXTS = {"route": "http.route", "worker": "queueing.worker", "queueing_status": "queueing.status"}
DURATIONS = {
    "queueing_delay": "queueing.delay",
    "queueing_delay_raw": "queueing.delay.raw",
    "clock_offset": "queueing.clock_offset",
    "service_time": "queueing.service_time",
}
STATUS = "http.response.status_code"
SERVICE = "service.name"


def span_rows(logs: Sequence[LogInput]) -> Iterator[tuple[str, list[dict[str, Any]], list[Reject]]]:
    """Yield (source, rows, refused lines), a block at a time.

    Reasons: ``not_an_export`` for a line that is no OTLP export request, ``invalid_span_time`` for one that holds a
    span without a sound start and end (its other spans are taken).
    """
    decoder = msgspec.json.Decoder(Export, strict=False)
    for log in logs:
        for block in blocks_of_lines(log):
            rows: list[dict[str, Any]] = []
            rejects = []
            for number, line in zip(block.numbers.to_pylist(), block.lines.to_pylist(), strict=True):
                try:
                    bad = _take(decoder.decode(line), rows)
                except NOT_AN_EXPORT:
                    bad = "not_an_export" if line.strip() else "empty_line"
                if bad:
                    rejects.append(Reject(number, block.position(number), bad, line.rstrip("\r\n")))
            rejects += [Reject(n, block.position(n), reason, raw) for n, reason, raw in block.refused]
            yield log.name, rows, rejects


def _take(export: Export, rows: list[dict[str, Any]]) -> str | None:
    bad = None
    for resource in export.resource_spans:
        facts = values_of(resource.resource.attributes)
        service = as_text(facts.get(SERVICE, ""))
        others = [(key, as_text(value)) for key, value in facts.items() if key != SERVICE]
        for scope in resource.scope_spans:
            for span in scope.spans:
                bounds = span_bounds(span)
                if bounds is None:
                    bad = "invalid_span_time"
                else:
                    rows.append(_row(span, bounds, service, others))
    return bad


def _row(span: Span, bounds: tuple[int, int], service: str, resource: list[tuple[str, str]]) -> dict[str, Any]:
    values = values_of(span.attributes)
    row: dict[str, Any] = {
        "start": bounds[0], "end": bounds[1], "trace_id": span.trace_id, "span_id": span.span_id,
        "parent_span_id": span.parent_span_id, "service": service, "name": span.name, "kind": _kind(span.kind),
        "error": span.status.code in ERROR, "status_message": span.status.message, "resource": resource,
        "events": [{"time": t, "name": e.name} for e in span.events if (t := _nanoseconds(e.time_unix_nano))],
        "request_id": as_text(first_value(values.pop(REQUEST_ID, None)) or ""),
        "status_code": _status(values),
    }  # fmt: skip
    for column, key in TEXTS.items():
        row[column] = as_text(values.pop(key, ""))
    for column, key in DURATIONS.items():
        row[column] = _seconds(values, key)
    if redacting():
        values = redacted_attributes(values)
    row["attributes"] = [(key, as_text(value)) for key, value in values.items()]
    return row


def _kind(kind: int | str) -> str:
    if isinstance(kind, str):
        name = kind.removeprefix("SPAN_KIND_").lower()
        return name if name in KINDS else KINDS[0]
    return KINDS[kind] if 0 <= kind < len(KINDS) else KINDS[0]


def _status(values: dict[str, Any]) -> int:
    try:
        code = int(values.get(STATUS, 0))
    except (TypeError, ValueError):
        return 0
    if not 0 < code < 1000:
        return 0
    del values[STATUS]
    return code


def _seconds(values: dict[str, Any], key: str) -> Decimal | None:
    """Return the attribute as seconds to the microsecond; any other value remains an attribute."""
    value = values.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e9:
        return None
    del values[key]
    return Decimal(round(value * 1e6)).scaleb(-6)


def _nanoseconds(value: int | str) -> int:
    try:
        ns = int(value)
    except ValueError:
        return 0
    return ns if 0 < ns < 1 << 63 else 0


def as_text(value: Any) -> str:
    """Return an attribute's value as text: a string unchanged, true or false, or JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
