"""The smaller programs under `vrl`: spans, samples of listen queues, the agent's counters, and dead letters."""

from __future__ import annotations

from typing import Any

import pytest
from vrl_support import program, run_program

TIMES = """
.start_time_unix_nano = parse_timestamp(.start_time_unix_nano, "%+") ?? .start_time_unix_nano
.end_time_unix_nano = parse_timestamp(.end_time_unix_nano, "%+") ?? .end_time_unix_nano
"""
COUNTER = {
    "name": "component_received_events_total", "kind": "absolute", "host": "edge-1",
    "tags": {"component_id": "access_log", "component_type": "file", "file": "/logs/access.jsonl", "host": "edge-1"},
    "counter": {"value": 42.0},
}  # fmt: skip


def span(**changes: Any) -> dict[str, Any]:
    return {
        "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736", "span_id": "00f067aa0ba902b7", "parent_span_id": "",
        "name": "GET", "kind": 2,
        "start_time_unix_nano": "2026-01-01T00:00:00.123456789Z", "end_time_unix_nano": "2026-01-01T00:00:01Z",
        "attributes": {}, "resources": {"service.name": "shop"}, **changes,
    }  # fmt: skip


def spans(*events: dict[str, Any]) -> list[Any]:
    return run_program(TIMES + program("spans"), events)


def samples(*messages: str) -> list[Any]:
    return run_program(
        program("listen_queue"), [{"message": m, "host": "edge-1", "file": "/l.jsonl"} for m in messages]
    )


def test_a_span_keeps_its_nanoseconds_and_its_service() -> None:
    (row,) = spans(span())
    assert (row["start"], row["end"]) == ("2026-01-01T00:00:00.123456789Z", "2026-01-01T00:00:01Z")
    assert (row["service"], row["kind"], row["error"], row["resource"]) == ("shop", "server", False, {})


@pytest.mark.parametrize(
    ("value", "seconds", "kept"),
    [
        (0.1234567, 0.123457, None),
        (-2, -2.0, None),
        (0, 0.0, None),
        (1e9, None, "1000000000.0"),
        (True, None, "true"),
        ("0.5", None, "0.5"),
    ],
)
def test_a_duration_of_a_span_is_a_number_or_remains_an_attribute(
    value: object, seconds: float | None, kept: str | None
) -> None:
    (row,) = spans(span(attributes={"queueing.delay": value}))
    assert row["queueing_delay"] == seconds
    assert row["attributes"].get("queueing.delay") == kept


@pytest.mark.parametrize(
    ("value", "request_id"), [(["a", "b"], "a"), ([], ""), ("a", "a"), (7, "7"), (None, "")]
)  # fmt: skip
def test_the_request_id_is_the_first_value_of_its_header(value: object, request_id: str) -> None:
    (row,) = spans(span(attributes={"http.request.header.x-request-id": value}))
    assert row["request_id"] == request_id
    assert row["attributes"] == {}


@pytest.mark.parametrize("kind", [-1, 6, 99, None])
def test_a_kind_that_is_none_is_unspecified(kind: object) -> None:
    (row,) = spans(span(kind=kind))
    assert row["kind"] == "unspecified"


def test_spans_without_sound_times_are_refused() -> None:
    assert (
        spans(
            span(end_time_unix_nano="2025-12-31T00:00:00Z"),
            span(start_time_unix_nano="1970-01-01T00:00:00Z"),
            span(start_time_unix_nano="1969-01-01T00:00:00Z", end_time_unix_nano="1969-01-01T00:00:00Z"),
        )
        == ["invalid_span_time"] * 3
    )


def test_a_sample_is_a_row() -> None:
    (row,) = samples('{"time":1767225600.123457,"socket":"app1","port":8000,"depth":0,"limit":2048}')
    assert row == {
        "time": 1767225600.123457, "machine": "edge-1", "socket": "app1", "port": 8000, "depth": 0, "backlog": 2048,
    }  # fmt: skip


@pytest.mark.parametrize(
    "message",
    [
        "", "x", "[]", "{}", '{"unavailable":"no"}',
        '{"time":"soon","socket":"a","port":1,"depth":1,"limit":1}',
        '{"time":0,"socket":"a","port":1,"depth":1,"limit":1}',
        '{"time":1e300,"socket":"a","port":1,"depth":1,"limit":1}',
        '{"time":1767225600,"socket":5,"port":1,"depth":1,"limit":1}',
        '{"time":1767225600,"socket":"a","port":65536,"depth":1,"limit":1}',
        '{"time":1767225600,"socket":"a","port":-1,"depth":1,"limit":1}',
        '{"time":1767225600,"socket":"a","port":1,"depth":-1,"limit":1}',
        '{"time":1767225600,"socket":"a","port":1,"depth":1,"limit":4294967296}',
        '{"time":1767225600,"socket":"a","port":1,"depth":true,"limit":1}',
        '{"time":1767225600,"socket":"a","port":null,"depth":1,"limit":1}',
    ],
)  # fmt: skip
def test_rejects_samples_that_do_not_fit_the_table(message: str) -> None:
    assert samples(message) == ["invalid_sample"]


def test_counters_are_rows_and_histograms_are_two() -> None:
    histogram = {
        **COUNTER,
        "name": "lag_seconds",
        "counter": None,
        "aggregated_histogram": {"count": 3, "sum": 1.5, "buckets": []},
    }
    counted, seen, refused = run_program(program("pipeline_metrics"), [COUNTER, histogram, {"name": "x", "host": "h"}])
    assert (counted["agent"], counted["component"], counted["file"], counted["value"]) == (
        "edge-1", "access_log", "/logs/access.jsonl", 42.0,
    )  # fmt: skip
    assert counted["tags"] == {"component_type": "file"}
    assert [(row["metric"], row["value"]) for row in seen] == [("lag_seconds_count", 3.0), ("lag_seconds_sum", 1.5)]
    assert refused == "not_a_number"


def test_two_files_of_one_log_keep_counters_of_their_own() -> None:
    rotated = {**COUNTER, "tags": {**COUNTER["tags"], "file": "/logs/access.jsonl.1"}}
    now, before = run_program(program("pipeline_metrics"), [COUNTER, rotated])
    assert now["file"] == before["file"] == "/logs/access.jsonl"
    assert before["tags"] == {**now["tags"], "path": "/logs/access.jsonl.1"}


def dead(**event: Any) -> dict[str, Any]:
    (row,) = run_program(program("dead_letters"), [event])
    assert set(row) == {"time", "kind", "source", "position", "line_bytes", "reason", "raw"}
    return dict(row)


def test_a_dead_letter_says_what_why_and_whence() -> None:
    row = dead(
        message="x\r", host="h", file="/logs/access.jsonl.1", offset=12,
        metadata={"dropped": {"component_id": "requests", "reason": "abort", "message": "invalid_json"}},
    )  # fmt: skip
    del row["time"]
    assert row == {
        "kind": "requests", "source": "h:/logs/access.jsonl", "position": 12, "line_bytes": 3, "reason": "invalid_json",
        "raw": "x",
    }  # fmt: skip


def test_a_program_that_broke_off_is_a_reason_too() -> None:
    metadata = {"dropped": {"component_id": "requests", "reason": "error", "message": "function call error ..."}}
    assert dead(message="x", host="h", file="/f", metadata=metadata)["reason"] == "program_error"


def test_of_a_line_too_long_the_beginning_is_kept() -> None:
    metadata = {"dropped": {"component_id": "requests", "reason": "abort", "message": "line_too_long"}}
    assert dead(message="ä" * 300, host="h", file="/f", metadata=metadata)["raw"] == "ä" * 200


def test_a_dead_letter_is_made_of_anything() -> None:
    assert dead(metadata=7, message=None, offset="x")["reason"] == "program_error"
