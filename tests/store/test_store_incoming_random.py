"""No line stops an INSERT and none disappears, whatever JSON is in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from incoming_support import SOUND, START, answer, compact, emptied, send
from sojourn.store import connect
from sojourn.store.client import Store


@pytest.fixture(scope="module")
def store(make_store: Callable[[], str]) -> Iterator[Store]:
    with connect(make_store()) as opened:
        yield opened


scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=6),
    st.sampled_from(["1", "-1", "1e300", "9" * 30, "NaN", "\x00", "::ffff:1.2.3.4", "?", '["', "2026-01-01T00:00:00Z"]),
)  # fmt: skip
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["values", "key", "value", "stringValue", "arrayValue"]), inner, max_size=2),
    ),
    max_leaves=6,
)
KEYS = [
    "http.request.header.x-request-id", "http.route", "http.response.status_code", "queueing.delay",
    "queueing.service_time", "queueing.worker", "url.full", "client.address", "url.query", "service.name", "x",
]  # fmt: skip
KINDS = ["stringValue", "intValue", "doubleValue", "boolValue", "arrayValue", "kvlistValue", "bytesValue", "x"]
attributes = st.lists(
    st.fixed_dictionaries(
        {}, optional={"key": st.sampled_from(KEYS), "value": st.dictionaries(st.sampled_from(KINDS), values)}
    ),
    max_size=5,
)


def fields(names: list[str], **others: Any) -> st.SearchStrategy[dict[str, Any]]:
    known = dict.fromkeys(names, values)
    return st.fixed_dictionaries({}, optional={**known, **others})


otlp_spans = fields(
    ["traceId", "parentSpanId", "name", "kind", "startTimeUnixNano", "endTimeUnixNano", "status", "events"],
    attributes=st.one_of(values, attributes),
)
events = fields(
    ["trace_id", "parent_span_id", "name", "kind", "start_time_unix_nano", "end_time_unix_nano", "status", "events"],
    attributes=st.one_of(values, st.dictionaries(st.sampled_from(KEYS), values)),
    resources=st.one_of(values, st.dictionaries(st.sampled_from(KEYS), values)),
)
exports = fields(
    ["resourceSpans"],
    resourceSpans=st.lists(
        fields(["resource", "scopeSpans"], scopeSpans=st.lists(fields(["spans"]), max_size=2)), max_size=2
    ),
)


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.tuples(otlp_spans, st.booleans()), min_size=6, max_size=16),
    st.lists(st.tuples(events, st.booleans()), min_size=6, max_size=16),
    st.lists(exports, max_size=4),
)
def test_span_is_a_row_or_its_line_is_refused(
    store: Store,
    spans: list[tuple[dict[str, Any], bool]],
    events: list[tuple[dict[str, Any], bool]],
    exports: list[dict[str, Any]],
) -> None:
    times = {"startTimeUnixNano": START, "endTimeUnixNano": START}
    lines: list[Any] = [
        {"resourceSpans": [{"scopeSpans": [{"spans": [{"spanId": f"s{n}", **span, **(times if timed else {})}]}]}]}
        for n, (span, timed) in enumerate(spans)
    ]
    lines += [
        {"trace_id": "t", **event, "span_id": f"s{n}", **({**SOUND, "span_id": f"s{n}"} if timed else {})}
        for n, (event, timed) in enumerate(events, len(spans))
    ]
    timed = {f"s{n}" for n, (_, sound) in enumerate([*spans, *events]) if sound}
    emptied(store)
    send(store, "incoming_spans", map(compact, [*lines, *exports, SOUND]))
    stored = {span_id for (span_id,) in answer(store, "SELECT span_id FROM spans")}
    refused = {f"s{position}" for (position,) in answer(store, "SELECT position FROM dead_letters")}
    assert timed | {"sound"} <= stored
    assert {f"s{n}" for n in range(len(lines))} <= stored | refused
    assert not timed & refused


samples = fields(["time", "socket", "port", "depth", "limit", "machine", "x"])
figure = st.one_of(values, fields(["value", "count", "sum"]))
metrics = fields(
    ["name", "host", "timestamp"],
    tags=st.one_of(values, st.dictionaries(st.sampled_from(["component_id", "file", "path", "x"]), values)),
    counter=figure,
    gauge=figure,
    aggregated_histogram=figure,
)


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(samples, min_size=6, max_size=16), st.lists(metrics, min_size=6, max_size=16))
def test_sample_is_a_row_or_refused_and_metric_a_row_or_ignored(
    store: Store, samples: list[dict[str, Any]], metrics: list[dict[str, Any]]
) -> None:
    emptied(store)
    sound = {"time": 1767225600, "socket": "sound", "port": 1, "depth": 1, "limit": 1}
    lines = [*samples, *({**sound, "socket": f"a{n}", "x": line} for n, line in enumerate(samples)), sound]
    send(store, "incoming_listen_queue", map(compact, lines))
    kept = answer(store, "SELECT uniqExactIf(socket, socket LIKE 'a%' OR socket = 'sound') FROM listen_queue")
    assert kept == [(len(samples) + 1,)]
    counts = answer(store, "SELECT (SELECT count() FROM listen_queue) + (SELECT count() FROM dead_letters)")
    assert len(samples) + 1 <= counts[0][0] <= len(lines)
    send(store, "incoming_pipeline_metrics", map(compact, [*metrics, {"name": "sound", "counter": {"value": 1}}]))
    assert answer(store, "SELECT count() FROM pipeline_metrics WHERE metric = 'sound'") == [(1,)]
