"""The views: reconciliation, wasted work, what is stored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sojourn.analyses.split.run import split
from sojourn.store import load
from store_support import BASE, ask, one, record, tell, write_log

SOURCE = "web-1:/a.jsonl"


class Agent:
    """Inserts of an agent: lines with their place in the file."""

    def lines(self, *numbers: int, begin: int = 0, since: int = 0, size: int = 100) -> str:
        """Lines of ``size`` bytes: line n begins ``n * size`` bytes after ``begin``, and n s after ``since``."""
        records = [
            {"time": f"{BASE + since + n}.000", "request_time": "0.1", "status": "200", "request_id": f"r{since}-{n}"}
            for n in numbers
        ]
        placed = zip(map(json.dumps, records), (begin + n * size for n in numbers), strict=True)
        return self._insert(*((line, position, size) for line, position in placed))

    def refused(self, position: int, size: int) -> str:
        return self._insert(("x", position, size))

    @staticmethod
    def _insert(*lines: tuple[str, int, int]) -> str:
        host, file = SOURCE.split(":")
        rows = ", ".join(f"('{line}', '{host}', '{file}', {position}, {size})" for line, position, size in lines)
        return f"INSERT INTO incoming (line, host, file, position, line_bytes) VALUES {rows}"


@pytest.fixture
def agent() -> Agent:
    return Agent()


def gaps(dsn: str) -> list[tuple[object, ...]]:
    return ask(dsn, "SELECT begin, end, lines FROM line_gaps ORDER BY begin, end")


def test_lines_that_follow_one_another_are_one_run(store_dsn: str, agent: Agent) -> None:
    tell(store_dsn, agent.lines(0, 1, 2, 3, 6, 7), agent.refused(400, 50))
    runs = ask(store_dsn, "SELECT begin, end, lines, refused FROM line_runs ORDER BY begin")
    assert runs == [(0, 400, 4, False), (400, 450, 1, True), (600, 800, 2, False)]


def test_a_line_lost_shows_and_one_delivered_twice_does_not(store_dsn: str, agent: Agent) -> None:
    tell(
        store_dsn, agent.lines(*range(10)), agent.lines(*range(10, 20)), agent.lines(*range(15, 25))
    )  # from the middle of a run
    assert gaps(store_dsn) == []
    tell(store_dsn, agent.lines(*range(28, 30)))
    assert gaps(store_dsn) == [(2500, 2800, 3)]
    row = ask(store_dsn, "SELECT source, arrived, gaps, missing_bytes, missing, outstanding FROM reconciliation")
    assert row == [(SOURCE, 32, 1, 300, 3, 3)]
    tell(store_dsn, agent.lines(25, 26, 27))
    assert gaps(store_dsn) == []


def test_a_refused_line_is_no_gap_and_one_beside_it_is(store_dsn: str, agent: Agent) -> None:
    tell(store_dsn, agent.lines(*range(10)), agent.refused(1000, 50), agent.lines(*range(10), begin=1050, since=10))
    assert gaps(store_dsn) == []
    tell(
        store_dsn, agent.refused(2150, 50), agent.lines(*range(3), begin=2200, since=30)
    )  # the line before the refused one is lost
    assert gaps(store_dsn) == [(2050, 2150, 1)]
    tell(store_dsn, agent.refused(2500, 50), agent.lines(*range(3), begin=2650, since=40))  # the one after is lost
    assert gaps(store_dsn) == [(2050, 2150, 1), (2550, 2650, 1)]


def test_a_rotated_log_begins_at_0_again(store_dsn: str, agent: Agent) -> None:
    tell(store_dsn, agent.lines(*range(10)), agent.lines(*range(4), since=40), agent.lines(*range(6, 8), since=40))
    assert gaps(store_dsn) == [(400, 600, 2)]
    tell(store_dsn, agent.lines(2, 3, 4, since=60))  # a third one, of which the beginning is lost
    assert gaps(store_dsn) == [(0, 200, 2), (400, 600, 2)]


def test_a_line_read_in_two_halves_is_no_gap(store_dsn: str, agent: Agent) -> None:
    """Vector reports the byte at which its second reading began."""
    tell(store_dsn, agent.lines(*range(10)), agent.lines(0, begin=1040, since=10))
    assert gaps(store_dsn) == []  # unknown until the next line arrives
    tell(store_dsn, agent.lines(*range(11, 15)))
    assert gaps(store_dsn) == []
    tell(store_dsn, agent.lines(17))
    assert [gap[:2] for gap in gaps(store_dsn)] == [(1500, 1700)]


def test_bytes_before_the_first_known_line_are_no_gap(store_dsn: str, agent: Agent) -> None:
    """An agent that is upgraded goes on in the middle of its file."""
    tell(store_dsn, agent.lines(*range(500, 510)))
    assert gaps(store_dsn) == []
    tell(store_dsn, agent.lines(*range(511, 515)))
    assert gaps(store_dsn) == [(51000, 51100, 1)]


def test_loaded_lines_have_no_runs_and_no_reconciliation(store_dsn: str, tmp_path: Path) -> None:
    load(store_dsn, write_log(tmp_path / "a.jsonl", record(1), b"bad\n", record(2)))
    assert one(store_dsn, "SELECT count() FROM line_runs") == 0
    assert one(store_dsn, "SELECT count() FROM reconciliation") == 0


def test_lines_are_counted_before_they_collapse(store_dsn: str, tmp_path: Path) -> None:
    """Requests and their dead letters, by source; a dead letter that was a span is not a line of the log."""
    log = write_log(tmp_path / "a.jsonl", record(1), record(2), b"bad\n", b"worse\n")
    spans = write_log(tmp_path / "spans.jsonl", b"[]\n")
    for _ in range(2):
        load(store_dsn, log, spans=[spans])
    result = ask(store_dsn, "SELECT kind, source, sum(lines) FROM lines_received GROUP BY ALL ORDER BY kind")
    assert result == [("dead_letters", str(log), 4), ("requests", str(log), 4)]
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
        span("r2", BASE + 2, 1), span("r2", BASE + 3, 2),  # two attempts: the second has no client
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
    result = ask(
        store_dsn, "SELECT request_id, status, route, worker, wasted, waited FROM wasted_work ORDER BY request_id"
    )
    assert result == [
        ("r1", 504, "/report", "7", 3.0, 0.5),
        ("r2", 499, "/report", "7", 2.0, 0.5),
        ("r3", 504, "/report", "7", 4.0, 0.5),
    ]
    assert sum(row[4] for row in result) == pytest.approx(split(log, spans=[spans]).wasted)


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
    result = ask(
        store_dsn,
        "SELECT machine, toUnixTimestamp64Micro(time), socket, port, depth, backlog FROM listen_queue FINAL ORDER BY 1",
    )
    assert result == [(machine, BASE * 1_000_000 + 250_001, "app-1", 8080, 3, 64) for machine in ("", "web-1")]
    assert ask(store_dsn, "SELECT DISTINCT kind, reason FROM dead_letters") == [("listen_queue", "invalid_sample")]
