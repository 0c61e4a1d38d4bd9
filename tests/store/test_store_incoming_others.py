"""Lines of spans, samples of listen queues and agents' metrics become rows in the store, whatever the lines hold."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from incoming_support import SOUND, START, answer, compact, emptied, refused, send
from sojourn.store import connect
from sojourn.store.client import Store

TABLE = json.loads((Path(__file__).parents[1] / "vectors/spans.json").read_text("utf-8"))
CASES: list[dict[str, Any]] = TABLE["cases"]
INSTANTS = {"start": "toUnixTimestamp64Nano(s.start)", "end": "toUnixTimestamp64Nano(s.end)"}
COLUMNS = INSTANTS | {"events": "arrayMap(e -> (toUnixTimestamp64Nano(e.time), e.name), s.events)"}


def line_of(case: dict[str, Any]) -> bytes:
    if "line_base64" in case:
        return base64.b64decode(case["line_base64"])
    return case["line"].encode() if "line" in case else compact(case["json"])


@pytest.fixture(scope="module")
def store(make_store: Callable[[], str]) -> Iterator[Store]:
    with connect(make_store()) as opened:
        yield opened


@pytest.fixture
def empty(store: Store) -> Store:
    return emptied(store)


def spans(store: Store) -> list[dict[str, Any]]:
    """Every row of the table of spans as the cases have it: without what is as in an empty one."""
    names = TABLE["row_empty"]
    selected = ", ".join(f"{COLUMNS.get(name, name)} AS _{name}" for name in names)
    rows = [
        {name: plain(value) for name, value in zip(names, row, strict=True)}
        for row in answer(store, f"SELECT {selected} FROM spans AS s ORDER BY s.start, span_id")
    ]
    return [{name: value for name, value in row.items() if value != names[name]} for row in rows]


def plain(value: Any) -> Any:
    if isinstance(value, list):
        return [list(event) for event in value]
    return value if value is None or isinstance(value, str | int | dict) else f"{value:.6f}"


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_line_of_spans(empty: Store, case: dict[str, Any]) -> None:
    line = line_of(case)
    send(empty, "incoming_spans", [line], host="h", file="/s.jsonl.1", redact=case.get("redact", True))
    assert spans(empty) == case.get("rows", [])
    raw = case.get("raw", line.decode("utf-8", "replace").rstrip("\r\n"))
    letters = answer(empty, "SELECT kind, source, position, reason, raw FROM dead_letters")
    assert letters == ([("spans", "h:/s.jsonl", 0, case["reason"], raw)] if "reason" in case else [])


def test_lines_of_one_insert_do_not_affect_one_another(empty: Store) -> None:
    send(empty, "incoming_spans", map(line_of, CASES))
    expected = {
        tuple(row.get(name, "") for name in ("service", "name", "start", "trace_id", "span_id"))
        for case in CASES
        for row in case.get("rows", [])
    }
    result = answer(
        empty, "SELECT DISTINCT service, name, toUnixTimestamp64Nano(s.start), trace_id, span_id FROM spans AS s"
    )
    assert set(result) == expected
    assert refused(empty) == [("spans", n, case["reason"]) for n, case in enumerate(CASES) if "reason" in case]


def export(*bodies: object, resource: object = None) -> dict[str, Any]:
    return {"resourceSpans": [{"resource": resource or {}, "scopeSpans": [{"spans": list(bodies)}]}]}


def body(name: str, **changes: object) -> dict[str, Any]:
    return {"spanId": name, "startTimeUnixNano": START, "endTimeUnixNano": START, **changes}


def hostile_lines() -> list[tuple[bytes, str | None]]:
    """Lines that are large, deep or not text, each with its reason."""
    facts = {"attributes": [{"key": "a", "value": {"stringValue": "x" * 400_000}}]}
    values = {"arrayValue": {"values": [{"intValue": 1}] * 50_000}}
    return [
        (b"x" * (16 << 20), "line_too_long"),
        (b"\0" * 1_048_576, "line_too_long"),
        (b" " * 1_048_574, "empty_line"),
        (b"\xff" * 100_000, "not_an_export"),
        (b"[" * 500_000, "not_an_export"),
        (b'{"resourceSpans":' * 50_000, "not_an_export"),
        (b'{"a":' + b"[" * 1100 + b"]" * 1100 + b"}", "not_an_export"),
        (compact(export(body("deep", attributes=[{"key": "a", "value": values}]))), None),
        (compact(export(*[{}] * 300_000)), "invalid_span_time"),
        (compact({"resourceSpans": [{}] * 300_000}), None),
        (compact(export(*[body(str(n)) for n in range(5000)], resource=facts)), "line_too_long"),
        (compact(export(body("wide", attributes=[{"key": str(n)} for n in range(60_000)]))), None),
        (compact(export(body("twice", attributes=[{"key": "http.route"}] * 40_000))), None),
        (compact({**SOUND, "span_id": "event", "attributes": {f"url.full{n}": n for n in range(40_000)}}), None),
        (compact({**SOUND, "attributes": {"client.address": ":" * 500_000, "url.full": "?" * 500_000}}), None),
    ]


def test_large_and_deep_lines_stop_nothing(empty: Store) -> None:
    lines = [line for line, _ in hostile_lines()]
    send(empty, "incoming_spans", lines, redact=True)
    assert refused(empty) == [("spans", n, reason) for n, (_, reason) in enumerate(hostile_lines()) if reason]
    stored = answer(empty, "SELECT span_id, length(attributes) FROM spans ORDER BY span_id")
    assert stored == [("deep", 1), ("event", 40_000), ("sound", 2), ("twice", 0), ("wide", 60_000)]
    assert answer(empty, "SELECT max(length(raw)) <= 30000 FROM dead_letters") == [(1,)]
    others = [b'{"counter":{"value":1},"name":"n"}', *lines]
    send(empty, "incoming_pipeline_metrics", others)
    send(empty, "incoming_listen_queue", others)
    assert answer(empty, "SELECT metric, value FROM pipeline_metrics") == [("n", 1.0)]
    assert answer(empty, "SELECT count() FROM dead_letters WHERE kind = 'listen_queue'") == [(len(others),)]


SAMPLE = {"time": 1767225600.250001, "socket": "app-1", "port": 8080, "depth": 3, "limit": 64}


@pytest.mark.parametrize(
    ("changes", "row"),
    [
        ({}, ("edge-1", 1767225600250001, "app-1", 8080, 3, 64)),
        ({"machine": "web-1"}, ("web-1", 1767225600250001, "app-1", 8080, 3, 64)),
        ({"time": 1767225600}, ("edge-1", 1767225600000000, "app-1", 8080, 3, 64)),
        ({"port": "0", "depth": 0, "limit": 4294967295}, ("edge-1", 1767225600250001, "app-1", 0, 0, 4294967295)),
        ({"time": 0.0000016, "socket": ""}, ("edge-1", 2, "", 8080, 3, 64)),
        ({"other": [1]}, ("edge-1", 1767225600250001, "app-1", 8080, 3, 64)),
    ],
)
def test_sample_of_a_listen_queue(empty: Store, changes: dict[str, Any], row: tuple[Any, ...]) -> None:
    send(empty, "incoming_listen_queue", [compact(SAMPLE | changes)], host="edge-1", file="/l.jsonl")
    sql = "SELECT machine, toUnixTimestamp64Micro(time), socket, port, depth, backlog FROM listen_queue"
    assert (answer(empty, sql), refused(empty)) == ([row], [])


@pytest.mark.parametrize(
    "line",
    [
        b"", b"x", b"[]", b"{}", b"\xff", b'{"unavailable":"no"}', b'[1767225600,"a",1,1,1]',
        *(
            compact(SAMPLE | changes)
            for changes in (
                {"time": "soon"}, {"time": 0}, {"time": 1e300}, {"time": 1e10}, {"time": None}, {"time": True},
                {"socket": 5}, {"socket": None}, {"port": 65536}, {"port": -1}, {"port": 1.5}, {"port": True},
                {"port": None}, {"depth": -1}, {"depth": "many"}, {"limit": 4294967296}, {"limit": [1]},
                {"machine": 5},
            )
        ),
    ],
)  # fmt: skip
def test_refuses_samples_that_do_not_fit_the_table(empty: Store, line: bytes) -> None:
    send(empty, "incoming_listen_queue", [compact(SAMPLE), line], host="edge-1", file="/l.jsonl.1")
    assert answer(empty, "SELECT count() FROM listen_queue") == [(1,)]
    letters = answer(empty, "SELECT kind, source, position, reason, raw FROM dead_letters")
    assert letters == [("listen_queue", "edge-1:/l.jsonl", 1, "invalid_sample", line.decode("utf-8", "replace"))]


TAGS = {"component_id": "access_log", "component_type": "file", "file": "/logs/access.jsonl", "host": "edge-1"}
COUNTER = {
    "counter": {"value": 42.0}, "host": "edge-1", "kind": "absolute", "name": "component_received_events_total",
    "namespace": "vector", "tags": TAGS, "timestamp": "2026-01-01T00:00:15.250999999Z",
}  # fmt: skip
METRICS = "SELECT toUnixTimestamp64Milli(time), agent, component, metric, file, tags, value FROM pipeline_metrics"


def metric(**changes: Any) -> bytes:
    return compact({k: v for k, v in {**COUNTER, **changes}.items() if v is not None})


def test_counters_and_gauges_are_rows(empty: Store) -> None:
    send(empty, "incoming_pipeline_metrics", [metric(), metric(counter=None, gauge={"value": -1.5}, name="g", tags={})])
    assert answer(empty, f"{METRICS} ORDER BY metric") == [
        (1767225615250, "edge-1", "access_log", "component_received_events_total", "/logs/access.jsonl",
         {"component_type": "file"}, 42.0),
        (1767225615250, "edge-1", "", "g", "", {}, -1.5),
    ]  # fmt: skip


def test_histogram_is_a_count_and_a_sum(empty: Store) -> None:
    buckets = [{"count": 3, "upper_limit": 1.0}, {"count": 0, "upper_limit": "inf"}]
    histogram = {"aggregated_histogram": {"buckets": buckets, "count": 3, "sum": 1.5}}
    send(empty, "incoming_pipeline_metrics", [metric(counter=None, name="lag_seconds", **histogram)])
    result = answer(empty, "SELECT metric, value FROM pipeline_metrics ORDER BY metric")
    assert result == [("lag_seconds_count", 3.0), ("lag_seconds_sum", 1.5)]


def test_counters_of_a_rotated_file_have_its_path(empty: Store) -> None:
    send(empty, "incoming_pipeline_metrics", [metric(tags={**TAGS, "file": "/logs/access.jsonl.1", "path": "x"})])
    result = answer(empty, "SELECT file, tags FROM pipeline_metrics")
    assert result == [("/logs/access.jsonl", {"component_type": "file", "path": "/logs/access.jsonl.1"})]


def test_lines_that_are_no_metric_are_ignored(empty: Store) -> None:
    lines = [
        b"", b"x", b"[]", b"{}", b"\xff", b'[["a"]]', metric(counter=None), metric(counter={"value": "x"}),
        metric(counter=None, set={"values": ["a"]}), metric(counter=None, distribution={"samples": []}),
    ]  # fmt: skip
    send(empty, "incoming_pipeline_metrics", [*lines, metric(timestamp="soon", name="n")])
    result = answer(empty, "SELECT metric, value, abs(dateDiff('minute', time, now())) < 5 FROM pipeline_metrics")
    assert (result, refused(empty)) == ([("n", 42.0, 1)], [])
