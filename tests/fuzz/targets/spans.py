"""OTLP/JSON lines: spans and traces are read or passed over, and what is read is sound."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from random import Random
from typing import Any

from sojourn.readers.spans import SPANS_SCHEMA, read_spans
from sojourn.sources.traces import read_traces

from fuzz import nasty

PACKAGES: tuple[str, ...] = ("sojourn",)
JOINED = True
_FOLDER = tempfile.TemporaryDirectory(prefix="fuzz")
_NS = 1_767_225_600 * 10**9


def check(data: bytes) -> None:
    """Every span has a begin before its end, and no figure that is none."""
    path = Path(_FOLDER.name, "spans.jsonl")
    path.write_bytes(data)
    spans = read_spans([path])
    assert dict(spans.schema) == SPANS_SCHEMA
    for row in spans.to_dicts():
        assert row["span_start"] <= row["span_end"], row
        for name in ("span_seconds", "span_service_time", "span_queueing_delay"):
            assert row[name] is None or math.isfinite(row[name]), row
    traces = read_traces([str(path)])
    assert (traces.spans["start"] <= traces.spans["end"]).all()
    assert len(traces.spans.unique(["trace_id", "span_id"])) == len(traces.spans)
    assert all(count > 0 for count in traces.refused.values())


def generated(rng: Random) -> bytes:
    """Some exports."""
    return b"\n".join(export(rng, nasty.text(rng), 1767225600.0) for _ in range(rng.randrange(1, 4)))


def export(rng: Random, request_id: str, end: float) -> bytes:
    """One export request with a span of a request that ended then, some of it odd."""
    begin = int(end * 10**9) - rng.randrange(10**9)
    span: dict[str, Any] = {
        "traceId": f"{rng.randrange(1 << 128):032x}", "spanId": f"{rng.randrange(1 << 64):016x}", "parentSpanId": "",
        "name": "GET /a", "kind": rng.choice((2, 2, "SPAN_KIND_SERVER", 3)), "startTimeUnixNano": str(begin),
        "endTimeUnixNano": str(begin + rng.randrange(10**9)),
        "attributes": [
            _attribute("http.request.header.x-request-id", {"arrayValue": {"values": [{"stringValue": request_id}]}}),
            _attribute("queueing.delay", {"doubleValue": rng.random()}),
            _attribute("queueing.service_time", {"doubleValue": rng.random()}),
            _attribute("queueing.worker", {"stringValue": "17"}),
        ],
    }  # fmt: skip
    whole: dict[str, Any] = {
        "resourceSpans": [
            {
                "resource": {"attributes": [_attribute("service.name", {"stringValue": "shop"})]},
                "scopeSpans": [{"spans": [span, *([span] if rng.random() < 0.1 else [])]}],
            }
        ]
    }
    for _ in range(rng.choice((0, 1, 1, 2, 4))):
        _spoil(rng, span, whole)
    return nasty.dumped(whole, rng).replace(b"\n", b" ")


def _attribute(key: str, value: Any) -> dict[str, Any]:
    return {"key": key, "value": value}


def _spoil(rng: Random, span: dict[str, Any], whole: dict[str, Any]) -> None:
    kind = rng.randrange(5)
    if kind == 0:
        span[rng.choice(tuple(span))] = nasty.value(rng)
    elif kind == 1:
        for key in ("startTimeUnixNano", "endTimeUnixNano"):
            if rng.random() < 0.5:
                span[key] = rng.choice((nasty.number(rng), str(2**63 - 1), 2**63, -1, 1, str(_NS), 10**30))
    elif kind == 2 and isinstance(span["attributes"], list) and span["attributes"]:
        value = {
            rng.choice(
                ("stringValue", "doubleValue", "intValue", "boolValue", "arrayValue", "kvlistValue", "")
            ): nasty.value(rng)
        }
        span["attributes"][rng.randrange(len(span["attributes"]))] = _attribute(
            rng.choice(
                ("queueing.delay", "queueing.delay.raw", "queueing.service_time", "http.route", "queueing.worker")
            ),
            value,
        )
    elif kind == 3:
        whole["resourceSpans"][0]["resource"] = nasty.value(rng)
    else:
        span.pop(rng.choice(tuple(span)), None)
        span.setdefault("attributes", [])
