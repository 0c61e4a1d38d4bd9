"""OTLP/JSON lines into a frame."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
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


START_NS, END_NS = 1_767_225_600_000_000_000, 1_767_225_600_500_000_000


def child(name: str, begin_ms: float, end_ms: float, **changes: object) -> dict[str, object]:
    """An INTERNAL child of the span of ``export``."""
    return {
        "traceId": "5b8efff798038103d269b633813fc60c",
        "spanId": name.encode().hex()[:16],
        "parentSpanId": "eee19b7ec3c1b174",
        "name": name,
        "kind": 1,
        "startTimeUnixNano": str(START_NS + round(begin_ms * 1e6)),
        "endTimeUnixNano": str(START_NS + round(end_ms * 1e6)),
        **changes,
    }


def with_children(*children: dict[str, object], **changes: object) -> bytes:
    """An export request with a SERVER span of half a second and other spans of its scope."""
    times = {"startTimeUnixNano": str(START_NS), "endTimeUnixNano": str(END_NS)}
    body = json.loads(export(**times, **changes))
    body["resourceSpans"][0]["scopeSpans"][0]["spans"][:0] = children
    return json.dumps(body).encode() + b"\n"


def only_row(path: Path, line: bytes) -> dict[str, object]:
    """The row of a file with one SERVER span."""
    path.write_bytes(line)
    return read_spans([path]).row(0, named=True)


def start_of(row: dict[str, object]) -> float:
    """Seconds from the begin of the span to the start of the work."""
    start = row["span_start"]
    assert isinstance(start, datetime)
    return (start - datetime.fromtimestamp(START_NS / 1e9, UTC)).total_seconds()


def test_children_of_ebpf_instrumentation_divide_a_span_into_queue_and_work(tmp_path: Path) -> None:
    line = with_children(child("in queue", 0, 120), child("processing", 120, 500))
    row = only_row(tmp_path / "s.jsonl", line)
    assert (row["span_waited"], start_of(row), row["span_seconds"]) == (0.12, 0.12, 0.38)


@pytest.mark.parametrize(
    "children",
    [
        [child("processing", 120, 500)],
        [child("in queue", 0, 120)],
        [child("in queue", 0, 120), child("processing", 300, 400)],
        [child("in queue", 10, 120), child("processing", 120, 500)],
        [child("in queue", 0, 120), child("processing", 120, 499)],
        [child("in queue", 0, 120, kind=3), child("processing", 120, 500)],
        [child("in queue", 0, 120, parentSpanId="aaaa"), child("processing", 120, 500, parentSpanId="aaaa")],
        [child("queue", 0, 120), child("process", 120, 500)],
    ],
)
def test_spans_of_these_names_of_another_library_divide_nothing(
    tmp_path: Path, children: list[dict[str, object]]
) -> None:
    row = only_row(tmp_path / "s.jsonl", with_children(*children))
    assert (row["span_waited"], start_of(row), row["span_seconds"]) == (None, 0.0, 0.5)


def attribute(key: str, value: float) -> dict[str, object]:
    return {"key": key, "value": {"doubleValue": value}}


def test_time_in_the_queue_of_vllm_precedes_the_work(tmp_path: Path) -> None:
    attributes = [
        attribute("gen_ai.latency.time_in_queue", 0.2),
        attribute("gen_ai.latency.time_in_model_prefill", 0.05),
    ]
    row = only_row(tmp_path / "s.jsonl", with_children(name="llm_request", attributes=attributes))
    assert (row["span_waited"], start_of(row), row["span_seconds"]) == (0.2, 0.2, pytest.approx(0.3))


@pytest.mark.parametrize("value", [-0.1, 0.6, float("1e300")])
def test_time_in_a_queue_outside_of_its_span_is_not_used(tmp_path: Path, value: float) -> None:
    attributes = [attribute("gen_ai.latency.time_in_queue", value)]
    row = only_row(tmp_path / "s.jsonl", with_children(attributes=attributes))
    assert (row["span_waited"], start_of(row), row["span_seconds"]) == (None, 0.0, 0.5)


def test_time_in_queue_of_sentry_is_the_delay_since_the_stamp_in_milliseconds(tmp_path: Path) -> None:
    row = only_row(
        tmp_path / "s.jsonl", with_children(attributes=[attribute("http.server.request.time_in_queue", 52.5)])
    )
    assert (row["span_queueing_delay"], row["span_waited"], start_of(row)) == (0.0525, None, 0.0)
    both = [attribute("http.server.request.time_in_queue", 52.5), attribute("queueing.delay.raw", 0.07)]
    assert only_row(tmp_path / "t.jsonl", with_children(attributes=both))["span_queueing_delay"] == 0.07


TRANSACTION = {
    "type": "transaction",
    "transaction": "OrdersController#create",
    "start_timestamp": 1767225600.0,
    "timestamp": 1767225600.25,
    "contexts": {
        "trace": {
            "trace_id": "5b8efff798038103d269b633813fc60c",
            "span_id": "eee19b7ec3c1b174",
            "op": "http.server",
            "data": {"http.server.request.time_in_queue": 48.0},
        }
    },
    "request": {"headers": {"X-Request-Id": "r7"}},
}


def test_transactions_of_sentry_are_spans(tmp_path: Path) -> None:
    row = only_row(tmp_path / "s.jsonl", json.dumps(TRANSACTION).encode() + b"\n")
    assert (row["request_id"], row["span_route"], row["span_id"]) == (
        "r7",
        "OrdersController#create",
        "eee19b7ec3c1b174",
    )
    assert (row["span_seconds"], row["span_queueing_delay"], start_of(row)) == (0.25, 0.048, 0.0)


@pytest.mark.parametrize("op", ["queue.process", "http.client", ""])
def test_other_transactions_of_sentry_are_not_requests(tmp_path: Path, op: str) -> None:
    other = json.loads(json.dumps(TRANSACTION))
    other["contexts"]["trace"]["op"] = op
    lines = [other, {**TRANSACTION, "timestamp": 1.0}, {**TRANSACTION, "contexts": {}}, {"start_timestamp": "noon"}]
    (tmp_path / "s.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert read_spans([tmp_path / "s.jsonl"]).is_empty()
