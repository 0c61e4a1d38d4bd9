"""The views: reconciliation, wasted work, what is stored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sojourn.explain.split import split
from sojourn.store import load
from store_support import BASE, ask, one, record, tell, write_log

COUNTER = "INSERT INTO pipeline_metrics (time, agent, component, metric, file, tags, value) VALUES "


def counted(time: str, value: float, **changes: str) -> str:
    row = {
        "agent": "web-1", "component": "access_log", "metric": "component_received_events_total", "file": "/a.jsonl",
        "tags": "map('pid', '1')", **changes,
    }  # fmt: skip
    texts = "', '".join(row[name] for name in ("agent", "component", "metric", "file"))
    return f"('2026-01-01 {time}', '{texts}', {row['tags']}, {value})"


def arrived(time: str, lines: int, source: str = "web-1:/a.jsonl", kind: str = "requests") -> str:
    return f"INSERT INTO arrivals VALUES ('2026-01-01 {time}', '{kind}', '{source}', {lines})"


def reconciled(dsn: str) -> list[tuple[object, ...]]:
    return ask(
        dsn,
        "SELECT toHour(hour), source, read, arrived, missing, again, restarts, outstanding FROM reconciliation "
        "ORDER BY source, hour",
    )


def test_reconciliation(store_dsn: str) -> None:
    tell(
        store_dsn,
        COUNTER + ", ".join([
            counted("00:10:00", 100), counted("00:10:00", 100),  # a sample delivered twice
            counted("00:50:00", 160),
            counted("01:10:00", 20, tags="map('pid', '2')"),  # killed and started anew
            counted("01:50:00", 70, tags="map('pid', '2')"),
            counted("02:10:00", 80, tags="map('pid', '2')"),
            counted("00:10:00", 5, file="/b.jsonl"),
            counted("00:10:00", 999, component="other"), counted("00:10:00", 999, metric="component_sent_events_total"),
            counted("00:10:00", 999, file=""),
        ]),
        arrived("00:20:00", 150), arrived("00:59:00", 8, kind="dead_letters"),
        arrived("01:00:00", 75), arrived("02:20:00", 10), arrived("00:20:00", 5, "web-1:/b.jsonl"),
        arrived("00:20:00", 7000, "loaded.jsonl"),
    )  # fmt: skip
    assert reconciled(store_dsn) == [
        (0, "web-1:/a.jsonl", 160, 158, 2, 0, 0, 2),
        (1, "web-1:/a.jsonl", 70, 75, 0, 5, 1, -3),
        (2, "web-1:/a.jsonl", 10, 10, 0, 0, 0, -3),
        (0, "web-1:/b.jsonl", 5, 5, 0, 0, 0, 0),
    ]


def test_what_arrives_is_counted_before_it_collapses(store_dsn: str, tmp_path: Path) -> None:
    """Requests and their dead letters, by source; a dead letter that was a span is not a line of the log."""
    log = write_log(tmp_path / "a.jsonl", record(1), record(2), b"bad\n", b"worse\n")
    spans = write_log(tmp_path / "spans.jsonl", b"[]\n")
    for _ in range(2):
        load(store_dsn, log, spans=[spans])
    found = ask(store_dsn, "SELECT kind, source, sum(lines) FROM arrivals GROUP BY ALL ORDER BY kind")
    assert found == [("dead_letters", str(log), 4), ("requests", str(log), 4)]
    assert ask(store_dsn, "SELECT source, sum(requests), sum(dead_letters) FROM stored_records GROUP BY source") == [
        (str(log), 2, 2)
    ]


def span(request_id: str | None, start: float, seconds: float, **changes: object) -> bytes:
    attributes = {"queueing.worker": "7", "http.route": "/report"}
    if request_id:
        attributes["http.request.header.x-request-id"] = request_id
    body = {
        "traceId": "t", "spanId": f"s{start}{seconds}", "parentSpanId": "", "kind": 2, "name": "GET",
        "startTimeUnixNano": str(int(start * 1e9)), "endTimeUnixNano": str(int((start + seconds) * 1e9)),
        "attributes": [{"key": k, "value": {"stringValue": v}} for k, v in attributes.items()], **changes,
    }  # fmt: skip
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [body]}]}]}).encode() + b"\n"


@pytest.fixture
def timed_out(tmp_path: Path) -> tuple[Path, Path]:
    gone = {
        "status": "504", "upstream_status": "504", "upstream_header_time": "-", "queueing_delay": "",
        "service_time": "", "worker": "", "route": "", "uri": "/report/17",
    }  # fmt: skip
    log = write_log(
        tmp_path / "a.jsonl",
        record(1, **gone), record(2, **{**gone, "status": "499"}), record(3, **gone, trace_id="t3", span_id="p3"),
        record(4, **gone), record(5), record(6, **gone),
    )  # fmt: skip
    spans = write_log(
        tmp_path / "spans.jsonl",
        span("r1", BASE + 1, 3), span("r1", BASE + 1, 3),  # delivered twice
        span("r2", BASE + 2, 1), span("r2", BASE + 3, 2),  # two attempts: the second is what nobody waited for
        span(None, BASE + 3, 4, traceId="t3", parentSpanId="p3"),  # stock instrumentation
        span("r4", BASE + 4, 9, kind=3),  # a client span
        span("r5", BASE + 5, 5),  # answered
        span(None, BASE + 6, 6),
    )  # fmt: skip
    return log, spans


def test_wasted_work(store_dsn: str, timed_out: tuple[Path, Path]) -> None:
    log, spans = timed_out
    load(store_dsn, log, spans=[spans])
    load(store_dsn, log, spans=[spans])
    found = ask(
        store_dsn, "SELECT request_id, status, route, worker, wasted, waited FROM wasted_work ORDER BY request_id"
    )
    assert found == [
        ("r1", 504, "/report", "7", 3.0, 0.5),
        ("r2", 499, "/report", "7", 2.0, 0.5),
        ("r3", 504, "/report", "7", 4.0, 0.5),
    ]
    assert sum(row[4] for row in found) == pytest.approx(split(log, spans=[spans]).wasted)


def test_spans_in_full(store_dsn: str, tmp_path: Path) -> None:
    resource = [
        {"key": "service.name", "value": {"stringValue": "shop"}},
        {"key": "process.pid", "value": {"intValue": "9"}},
    ]
    attributes = [
        {"key": "http.request.header.x-request-id", "value": {"arrayValue": {"values": [{"stringValue": "r1"}]}}},
        {"key": "queueing.delay", "value": {"doubleValue": 0.000656847}},
        {"key": "queueing.delay.raw", "value": {"doubleValue": -0.125}},
        {"key": "queueing.status", "value": {"stringValue": "ok"}},
        {"key": "queueing.service_time", "value": {"stringValue": "long"}},
        {"key": "http.response.status_code", "value": {"intValue": "503"}},
        {"key": "debug", "value": {"boolValue": True}},
    ]
    body = {
        "traceId": "t", "spanId": "s", "parentSpanId": "p", "kind": "SPAN_KIND_PRODUCER", "name": "send",
        "startTimeUnixNano": "1767225600123456789", "endTimeUnixNano": "1767225601123456790", "attributes": attributes,
        "status": {"code": "STATUS_CODE_ERROR", "message": "no"},
        "events": [{"timeUnixNano": "1767225600123456790", "name": "e"}, {"timeUnixNano": "never", "name": "f"}],
    }  # fmt: skip
    export = {"resourceSpans": [{"resource": {"attributes": resource}, "scopeSpans": [{"spans": [body]}]}]}
    bad = {
        "resourceSpans": [
            {"scopeSpans": [{"spans": [{**body, "endTimeUnixNano": "1"}, {**body, "spanId": "s2", "kind": 99}]}]}
        ]
    }
    lines = [json.dumps(x).encode() + b"\n" for x in (export, bad)]
    spans = write_log(tmp_path / "spans.jsonl", *lines, b"no\n")
    loaded = load(store_dsn, write_log(tmp_path / "a.jsonl", record(1)), spans=[spans])
    assert (loaded.spans, loaded.dead_letters) == (2, 2)
    assert ask(
        store_dsn,
        "SELECT toUnixTimestamp64Nano(start), toUnixTimestamp64Nano(end), seconds, trace_id, span_id, parent_span_id, "
        "request_id, service, name, kind, status_code, error, status_message, toString(queueing_delay), "
        "toString(queueing_delay_raw), service_time, queueing_status, attributes, resource, "
        "events.name, toUnixTimestamp64Nano(events.time[1]) FROM spans FINAL WHERE span_id = 's'",
    ) == [
        (1767225600123456789, 1767225601123456790, 1.000000001, "t", "s", "p", "r1", "shop", "send", "producer", 503,
         True, "no", "0.000657", "-0.125", None, "ok", {"queueing.service_time": "long", "debug": "true"},
         {"process.pid": "9"}, ["e"], 1767225600123456790),
    ]  # fmt: skip
    assert one(store_dsn, "SELECT kind FROM spans FINAL WHERE span_id = 's2'") == "unspecified"
    assert ask(store_dsn, "SELECT reason, position FROM dead_letters FINAL WHERE kind = 'spans' ORDER BY position") == [
        ("invalid_span_time", len(lines[0])), ("not_an_export", len(lines[0]) + len(lines[1])),
    ]  # fmt: skip


def test_a_run_brings_its_listen_queues(store_dsn: str, tmp_path: Path) -> None:
    write_log(tmp_path / "access.jsonl", record(1))
    write_log(tmp_path / "spans.jsonl", span("r1", BASE, 1))
    sample = {"time": BASE + 0.250001, "socket": "app-1", "port": 8080, "depth": 3, "limit": 64}
    bad = [{**sample, "port": 70000}, {**sample, "depth": -1}, {**sample, "time": "now"}, {"time": 1}]
    lines = [json.dumps(s).encode() + b"\n" for s in (sample, {**sample, "machine": "web-1"}, *bad)]
    write_log(tmp_path / "listen.jsonl", *lines, b"\xff\n")
    for _ in range(2):
        loaded = load(store_dsn, tmp_path)
    assert (loaded.requests, loaded.spans, loaded.listen, loaded.dead_letters) == (1, 1, 2, 5)
    found = ask(
        store_dsn,
        "SELECT machine, toUnixTimestamp64Micro(time), socket, port, depth, backlog FROM listen_queue FINAL ORDER BY 1",
    )
    assert found == [(machine, BASE * 1_000_000 + 250_001, "app-1", 8080, 3, 64) for machine in ("", "web-1")]
    assert ask(store_dsn, "SELECT DISTINCT kind, reason FROM dead_letters") == [("listen_queue", "invalid_sample")]
