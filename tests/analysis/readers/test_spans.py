"""OTLP/JSON lines into a frame."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import polars as pl
from sojourn.readers.spans import SPANS_SCHEMA, read_spans


def export(**changes: object) -> bytes:
    span: dict[str, object] = {
        "traceId": "5b8efff798038103d269b633813fc60c",
        "spanId": "eee19b7ec3c1b174",
        "parentSpanId": "eee19b7ec3c1b173",
        "name": "GET /",
        "kind": 2,
        "startTimeUnixNano": "1767225600123456789",
        "endTimeUnixNano": "1767225600623456789",
        "attributes": [
            {
                "key": "http.request.header.x-request-id",
                "value": {"arrayValue": {"values": [{"stringValue": "r1"}]}},
            },
            {"key": "queueing.service_time", "value": {"doubleValue": 0.25}},
            {"key": "queueing.delay.raw", "value": {"doubleValue": -0.125}},
            {"key": "queueing.worker", "value": {"stringValue": "17"}},
            {"key": "http.route", "value": {"stringValue": "/items/{id}"}},
        ],
        **changes,
    }
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]}
    body = {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": {"name": "x"}, "spans": [span]}]}]}
    return json.dumps(body).encode() + b"\n"


def test_every_field(tmp_path: Path) -> None:
    (tmp_path / "spans.jsonl").write_bytes(export())
    table = read_spans([tmp_path / "spans.jsonl"])
    assert dict(table.schema) == SPANS_SCHEMA
    row = table.row(0, named=True)
    assert (row["request_id"], row["service_name"], row["span_worker"]) == ("r1", "shop", "17")
    assert row["span_route"] == "/items/{id}"
    assert (row["span_seconds"], row["span_service_time"], row["span_queueing_delay"]) == (0.5, 0.25, -0.125)
    assert table["span_start"].dt.epoch("us").item() == 1767225600123456


def test_only_server_spans_count_and_bad_lines_are_passed_over(tmp_path: Path) -> None:
    lines = [
        export(kind=3), export(kind="SPAN_KIND_SERVER"), b"not json\n", b"[]\n", b"{}\n", b"\n", b"\xff\n",
        export(startTimeUnixNano="soon"), export(endTimeUnixNano="1"), export(attributes=[]),
        export(attributes=[{"key": "http.request.header.x-request-id", "value": {"stringValue": "plain"}}]),
        export(attributes=[{"key": "queueing.service_time", "value": {"stringValue": "x"}}, {"key": "k", "value": {}}]),
        export()[:50],
    ]  # fmt: skip
    (tmp_path / "spans.jsonl.gz").write_bytes(gzip.compress(b"".join(lines)))
    table = read_spans([tmp_path / "spans.jsonl.gz"])
    assert table["request_id"].to_list() == ["r1", None, "plain", None]


def test_no_spans(tmp_path: Path) -> None:
    (tmp_path / "spans.jsonl").write_bytes(b"")
    assert read_spans([tmp_path / "spans.jsonl"]).select(pl.len()).item() == 0
