"""Tiers: figures against an exact simulation, findings against simulated changes, and defective spans."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import tiers_simulator
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from sojourn import split
from sojourn.analyses.tiers.analysis import tiers
from sojourn.analyses.tiers.charts import load_table, tiers_table
from sojourn.analyses.tiers.requests import ACCOUNTS
from sojourn.analyses.tiers.result import Tiers
from sojourn.analyses.tiers.section import tiers_section
from sojourn.cli import app
from sojourn.model.errors import SojournError
from sojourn.sources.traces import read_traces
from syrupy.assertion import SnapshotAssertion
from tiers_simulator import EPOCH, TwoTiers, as_lines, export, exports, simulated, span, truth
from typer.testing import CliRunner

ROOT = Path(__file__).parents[4]
SHARED = TwoTiers(rate=22.0)
SLOW = TwoTiers(rate=28.0, front=0.2, database=0.004, workers=3)
TRACE = "a" * 32


@pytest.fixture(scope="module")
def write(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    folder = tmp_path_factory.mktemp("tiers")
    numbers = iter(range(10_000))

    def written(*parts: bytes | dict[str, Any]) -> Path:
        path = folder / f"{next(numbers)}.jsonl"
        path.write_bytes(b"".join(p if isinstance(p, bytes) else as_lines(iter([p])) for p in parts))
        return path

    return written


def result_of(settings: TwoTiers, write: Callable[..., Path]) -> tuple[Tiers, dict[str, float]]:
    visits = simulated(settings)
    return tiers(read_traces([write(as_lines(exports(visits, settings)))])), truth(visits, settings)


def figures(tiers_result: Tiers) -> dict[str, float]:
    """Return the mean seconds per request by account, with the names of the simulator."""
    means = {
        f"{tier.service} {name}": tier.seconds[name] / tiers_result.requests
        for tier in tiers_result.services
        for name in ("queueing", "self")
    }
    network = sum(tier.seconds["network"] for tier in tiers_result.services) / tiers_result.requests
    return {**means, "network": network, "response": tiers_result.response["mean"] or 0.0}


# --- the simulation


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(SHARED, id="two in front of one database"),
        pytest.param(replace(SHARED, instances=1), id="one in front of it"),
        pytest.param(SLOW, id="slow code in front"),
        pytest.param(TwoTiers(calls=3, database=0.012, database_workers=2, rate=40.0, network=0.004), id="three calls"),
    ],
)
def test_figures_are_within_2_percent_of_the_simulator(settings: TwoTiers, write: Callable[..., Path]) -> None:
    result, expected = result_of(settings, write)
    measured = figures(result)
    assert set(measured) == set(expected)
    for name, seconds in expected.items():
        assert measured[name] == pytest.approx(seconds, rel=0.02, abs=1e-6), name
    assert result.requests == settings.requests
    [edge] = result.edges
    assert (edge.caller, edge.callee, edge.calls) == ("checkout", "db", settings.requests * settings.calls)
    assert edge.network["p50"] == pytest.approx(2 * settings.network, rel=0.02)  # with clocks that differ by 137 ms


def test_distinguishes_a_shared_dependency_from_slow_code(
    write: Callable[..., Path], snapshot: SnapshotAssertion
) -> None:
    """The finding about another instance agrees with a simulation of another instance."""
    shared, _ = result_of(SHARED, write)
    assert shared.finding.kind == "shared_dependency"
    assert shared.finding.dependency == "db"
    assert shared.finding.another_instance_helps is False
    assert "checkout-1 and checkout-2" in shared.finding.sentence
    assert shared.finding.sentence == snapshot(name="shared")
    slow, _ = result_of(SLOW, write)
    assert slow.finding.kind == "queue"
    assert slow.finding.dependency is None
    assert slow.finding.another_instance_helps is True
    assert slow.finding.sentence == snapshot(name="queue")
    lightly, _ = result_of(replace(SLOW, rate=16.0), write)
    assert (lightly.finding.kind, lightly.finding.another_instance_helps) == ("code", False)
    assert lightly.finding.sentence == snapshot(name="code")

    def response(settings: TwoTiers) -> float:
        return truth(simulated(settings), settings)["response"]

    assert response(replace(SHARED, instances=3)) > 0.8 * response(SHARED)
    assert response(replace(SLOW, instances=3)) < 0.5 * response(SLOW)
    assert response(replace(SLOW, instances=3, rate=16.0)) > 0.9 * response(replace(SLOW, rate=16.0))


def test_second_instance_makes_the_dependency_the_bottleneck(
    write: Callable[..., Path], snapshot: SnapshotAssertion
) -> None:
    """A single instance with one worker never waits at the database; two instances do."""
    one = TwoTiers(rate=16.0, instances=1, workers=1)
    single, _ = result_of(one, write)
    assert (single.finding.kind, single.finding.another_instance_helps) == ("queue", True)
    assert "65 %" in single.finding.sentence
    assert single.finding.sentence == snapshot(name="one")
    double, _ = result_of(replace(one, rate=21.0, instances=2), write)
    assert (double.finding.kind, double.finding.another_instance_helps) == ("shared_dependency", False)
    assert double.finding.sentence == snapshot(name="two")


def test_separate_databases_are_not_shared(write: Callable[..., Path]) -> None:
    """Two queues of one name with one caller each are independent."""
    parts = []
    for number in range(2):
        settings = replace(SHARED, instances=1, rate=17.0, seed=number)
        text = as_lines(exports(simulated(settings), settings)).replace(b"checkout-1", b"checkout-%d" % (number + 1))
        parts.append(text.replace(b'"traceId":"0', b'"traceId":"%d' % (number + 1)))
    result = tiers(read_traces([write(*parts)]))
    [load] = result.loads
    assert len(load.callers) == 2
    assert load.rises
    assert not load.shared
    assert result.finding.kind == "dependency_queue"


def test_database_without_spans_is_opaque(write: Callable[..., Path], snapshot: SnapshotAssertion) -> None:
    settings = replace(SHARED, requests=2_000)
    lines = [e for e in exports(simulated(settings), settings) if b'"db-1"' not in as_lines(iter([e]))]
    result = tiers(read_traces([write(as_lines(iter(lines)))]))
    assert result.finding.kind == "shared_dependency"
    assert [t.service for t in result.services if t.opaque] == ["db"]
    slow = TwoTiers(front=0.012, database=0.2, database_workers=50, workers=30, requests=2_000)
    lines = [e for e in exports(simulated(slow), slow) if b'"db-1"' not in as_lines(iter([e]))]
    unknown = tiers(read_traces([write(as_lines(iter(lines)))])).finding
    assert (unknown.kind, unknown.another_instance_helps) == ("dependency_unknown", None)
    expected, _ = result_of(slow, write)
    assert expected.finding.kind == "dependency_code"
    assert [result.finding.sentence, unknown.sentence, expected.finding.sentence] == snapshot


def test_database_without_queueing_delays(write: Callable[..., Path], snapshot: SnapshotAssertion) -> None:
    """The time between a call and its visit is a queue if it rises with the load, else the network."""
    settings = replace(SHARED, requests=2_000)
    text = as_lines(exports(simulated(settings), settings))
    lines = [line.replace(b"queueing.delay", b"other") if b'"db-1"' in line else line for line in text.splitlines()]
    result = tiers(read_traces([write(b"\n".join(lines))]))
    assert result.finding.kind == "shared_dependency"
    assert result.doubts["unknown_queueing"] == 2_000
    quick = TwoTiers(front=0.01, database=0.02, database_workers=50, workers=30, requests=2_000, network=0.05)
    text = as_lines(exports(simulated(quick), quick)).replace(b"queueing.delay", b"other")
    far = tiers(read_traces([write(text)])).finding
    assert (far.kind, far.another_instance_helps) == ("dependency_unknown", None)
    assert [result.finding.sentence, far.sentence, *result.notes] == snapshot


def test_window_selects_traces_by_their_begin(write: Callable[..., Path]) -> None:
    settings = replace(SHARED, requests=300)
    visits = simulated(settings)
    path = write(as_lines(exports(visits, settings)))
    since, until = (datetime.fromtimestamp(EPOCH + second, UTC) for second in (3, 8))
    expected = [v for v in visits if 3 <= v.begin < 8]
    result = tiers(read_traces([path], since=since, until=until))
    assert result.requests == len(expected) > 50
    assert result.spans == 3 * len(expected)


# --- with a log


def test_requests_of_a_log_are_joined_with_spans(write: Callable[..., Path]) -> None:
    settings = replace(SHARED, requests=600)
    visits = simulated(settings)
    records = []
    for visit in visits[:500]:
        end = visit.end + 0.1  # to a slow client
        seconds = f"{visit.end - visit.arrival:.3f}"
        records.append({
            "time": f"{EPOCH + end:.3f}", "request_time": f"{end - visit.arrival:.3f}", "status": "200",
            "request_start": f"{EPOCH + visit.arrival:.3f}", "upstream_addr": f"10.0.0.{visit.instance + 1}:80",
            "upstream_status": "200", "upstream_connect_time": "0.000", "upstream_header_time": seconds,
            "upstream_response_time": seconds, "service_time": f"{visit.end - visit.begin:.6f}",
            "queueing_delay": f"{visit.begin - visit.arrival:.6f}", "trace_id": f"{visit.number + 1:032x}",
            "span_id": f"{visit.number + 1:012x}ffff" if visit.number % 2 else "", "request_id": f"r{visit.number}",
        })  # fmt: skip
    records.append({**records[-1], "trace_id": "", "span_id": "", "request_id": "another"})
    log = write(b"".join(json.dumps(record).encode() + b"\n" for record in records))
    traces = read_traces([write(as_lines(exports(visits, settings)))])
    rows = split(log, columns=("request_id", "trace_id", "span_id")).rows
    outcome = tiers(traces, rows)
    assert outcome.requests == 500
    assert outcome.doubts["orphans"] == 100
    assert outcome.doubts["log_rows_without_spans"] == 1
    assert outcome.elsewhere == pytest.approx(500 * 0.1, rel=0.02)
    assert outcome.response["mean"] == pytest.approx(sum(float(r["request_time"]) for r in records[:-1]) / 500)
    parts = outcome.per_request.select(*ACCOUNTS, "elsewhere").sum_horizontal()
    assert (parts - outcome.per_request["response"]).abs().max() < 1e-9
    result = CliRunner().invoke(
        app, ["tiers", str(write(as_lines(exports(visits, settings)))), "--log", str(log), "--json"]
    )
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["requests"] == 500


def test_rows_with_the_same_parent_id_join_the_span_of_their_trace(write: Callable[..., Path]) -> None:
    """nginx sends the same parent id in every trace that it starts."""
    parent, traces = "50f0a4e250f0a4e2", ("a" * 32, "b" * 32, "c" * 32)
    seconds = dict(zip(traces, (1.0, 2.0, 3.0), strict=True))
    records = [
        {
            "time": f"{EPOCH + 10 + seconds[trace]:.3f}", "request_time": f"{seconds[trace]:.3f}", "status": "200",
            "request_start": f"{EPOCH + 10:.3f}", "upstream_addr": "10.0.0.1:80", "upstream_status": "200",
            "upstream_connect_time": "0.000", "upstream_header_time": f"{seconds[trace]:.3f}",
            "upstream_response_time": f"{seconds[trace]:.3f}", "trace_id": trace, "span_id": parent,
        }
        for trace in traces
    ]  # fmt: skip
    log = write(b"".join(json.dumps(record).encode() + b"\n" for record in records))
    spans = [server(trace[:16], parent, 10, 10 + seconds[trace], trace) for trace in reversed(traces[:2])]
    rows = split(log, columns=("request_id", "trace_id", "span_id")).rows
    outcome = tiers(read_traces([write(one(*spans))]), rows)
    assert outcome.per_request.sort("response")["response"].to_list() == pytest.approx([1.0, 2.0])
    assert outcome.doubts["log_rows_without_spans"] == 1


# --- trees


def one(*spans: dict[str, Any], service: str = "front", instance: str = "") -> dict[str, Any]:
    return export(service, list(spans), instance)


def server(
    name: str, parent: str, begin: float, end: float, trace: str = TRACE, **attributes: object
) -> dict[str, Any]:
    return span(trace, name, parent, 2, begin, end, **attributes)


def client(
    name: str, parent: str, begin: float, end: float, trace: str = TRACE, **attributes: object
) -> dict[str, Any]:
    return span(trace, name, parent, 3, begin, end, **attributes)


def result_in(write: Callable[..., Path], *lines: dict[str, Any]) -> Tiers:
    return tiers(read_traces([write(*lines)]))


def seconds_of(tiers_result: Tiers, service: str) -> dict[str, float]:
    [tier] = [tier for tier in tiers_result.services if tier.service == service]
    return tier.seconds


def test_internal_spans_and_nested_clients_belong_to_their_service(write: Callable[..., Path]) -> None:
    findings = result_in(
        write,
        one(
            server("s", "", 0, 10),
            span(TRACE, "i", "s", 1, 1, 9),
            client("c", "i", 2, 6),
            client("c2", "c", 3, 5),  # the library below the library: one call
        ),
        one(server("d", "c2", 3.25, 4.75, **{"queueing.delay": 0.5}), service="db"),
    )
    assert seconds_of(findings, "front")["self"] == pytest.approx(6)
    assert seconds_of(findings, "db") == pytest.approx({"queueing": 0.5, "self": 1.5, "network": 2.0, "unknown": 0.0})
    [edge] = findings.edges
    assert (edge.calls, edge.time) == (1, pytest.approx(4))


def test_concurrent_calls_share_the_time(write: Callable[..., Path]) -> None:
    """[1, 5] and [3, 7] of ten seconds: six in total, two of them shared."""
    findings = result_in(
        write,
        one(server("s", "", 0, 10), client("a", "s", 1, 5, **{"peer.service": "x"}), client("b", "s", 3, 7)),
        one(server("d", "b", 3, 7, **{"queueing.delay": 0.0}), service="y"),
    )
    assert seconds_of(findings, "front")["self"] == pytest.approx(4)
    assert seconds_of(findings, "x")["self"] == pytest.approx(3)
    assert seconds_of(findings, "y")["self"] == pytest.approx(3)
    [y] = [tier for tier in findings.services if tier.service == "y"]
    assert y.self_time["mean"] == pytest.approx(4)  # per visit, all four


def test_call_that_ends_after_its_caller_is_cut(write: Callable[..., Path]) -> None:
    findings = result_in(
        write,
        one(server("s", "", 0, 4), client("a", "s", 3, 9), client("later", "s", 20, 21)),
        one(server("d", "a", 3, 9, **{"queueing.delay": 0.0}), service="db"),
    )
    assert seconds_of(findings, "front")["self"] == pytest.approx(3)
    assert seconds_of(findings, "db")["self"] == pytest.approx(1)
    assert findings.edges[0].seconds["mean"] == pytest.approx(6)
    assert (findings.doubts["cut"], findings.doubts["cut_seconds"]) == (2, pytest.approx(6))
    assert any(note.startswith("2 calls end after") for note in findings.notes)


def test_callee_without_a_client_span(write: Callable[..., Path]) -> None:
    """The call begins when the callee's queueing begins."""
    findings = result_in(
        write,
        one(server("s", "", 0, 10)),
        one(server("d", "s", 4, 7, **{"queueing.delay": 2.0}), service="db"),
    )
    assert seconds_of(findings, "front")["self"] == pytest.approx(5)
    assert seconds_of(findings, "db") == pytest.approx({"queueing": 2, "self": 3, "network": 0, "unknown": 0})


def test_unmeasured_wait_is_neither_queueing_nor_network(write: Callable[..., Path]) -> None:
    findings = result_in(
        write, one(server("s", "", 0, 10), client("c", "s", 2, 8)), one(server("d", "c", 5, 7.5), service="db")
    )
    assert seconds_of(findings, "db") == pytest.approx({"queueing": 0, "self": 2.5, "network": 0, "unknown": 3.5})
    assert findings.doubts["unknown_queueing"] == 2


def test_request_recorded_twice_in_a_process_is_one_visit(write: Callable[..., Path]) -> None:
    inner = server("t", "s", 0.1, 9.9, **{"queueing.delay": 1.5})
    findings = result_in(write, one(server("s", "", 0, 10), inner, client("c", "t", 2, 4), instance="front-1"))
    [front] = [tier for tier in findings.services if not tier.opaque]
    assert (front.visits, front.queueing["mean"]) == (1, 1.5)
    assert front.seconds["self"] == pytest.approx(8)


def test_clients_are_not_the_service_of_the_finding(write: Callable[..., Path]) -> None:
    findings = result_in(write, one(client("b", "", 0, 11), service="browser"), one(server("s", "b", 1, 10)))
    assert findings.finding.service == "front"
    assert findings.response["mean"] == pytest.approx(11)
    assert seconds_of(findings, "browser")["self"] == 0
    with pytest.raises(SojournError, match="no service"):
        result_in(write, one(client("b", "", 0, 11), service="browser"))


def test_messages_are_in_no_response(write: Callable[..., Path]) -> None:
    findings = result_in(
        write,
        one(server("s", "", 0, 1), span(TRACE, "p", "s", 4, 0.2, 0.3)),
        one(span(TRACE, "m", "p", 5, 0.5, 60), service="mailer"),
    )
    assert findings.requests == 1
    assert findings.doubts["messages"] == 1
    assert seconds_of(findings, "mailer")["self"] == 0
    assert seconds_of(findings, "front")["self"] == pytest.approx(1)


# --- defective spans


def test_cycles_are_excluded_and_lost_parents_counted(write: Callable[..., Path]) -> None:
    findings = result_in(
        write,
        one(server("s", "nginx", 0, 1)),
        one(span(TRACE, "x", "y", 1, 0, 5), span(TRACE, "y", "x", 1, 0, 5), span(TRACE, "z", "x", 3, 0, 5)),
        one(span(TRACE, "self", "self", 2, 0, 5)),
        one(server("p", "q", 0, 5), service="one"),
        one(server("q", "p", 0, 5), service="two"),
        one(server("lost", "gone", 0.5, 9), service="three"),
    )
    assert findings.requests == 1
    assert findings.total == pytest.approx(1)
    assert findings.doubts["broken"] == 6
    assert findings.doubts["orphans"] == 1
    assert {tier.service for tier in findings.services} == {"front", "three"}


def test_long_chains_of_spans(write: Callable[..., Path]) -> None:
    depth = 20_000
    spans = [span(TRACE, f"{n}", f"{n - 1}" if n else "", 1, 0, 1) for n in range(depth)]
    first = one(server("root", "", 0, 2), span(TRACE, "0", "root", 1, 0, 1))
    findings = result_in(write, first, *(one(*spans[n : n + 500]) for n in range(1, depth, 500)))
    assert (findings.spans, findings.total) == (depth + 1, pytest.approx(2))
    hops = [server(f"{n}", f"{n - 1}" if n else "", 0, 1 + (depth - n) * 1e-6) for n in range(depth)]
    lines = [one(hop, service=("a", "b")[n % 2]) for n, hop in enumerate(hops)]
    assert result_in(write, *lines).requests == 1


def test_invalid_lines_and_spans_are_counted(write: Callable[..., Path], tmp_path: Path) -> None:
    good = one(server("s", "", 0, 1))
    bad = {
        "resourceSpans": [
            {"scopeSpans": [{"spans": [server("", "", 0, 1), server("e", "", 5, 1), {"spanId": "x", "traceId": "y"}]}]}
        ]
    }
    hostile = one(
        server("h", "", 0, 1, trace="b" * 32, **{"queueing.delay": 1e300, "queueing.worker": "\x1b[31m"}),
        {**server("k", "", 0, 1, trace="c" * 32), "kind": "SPAN_KIND_NONSENSE"},
        service="<script>\x1b[2J",
    )
    junk = b'not json\n[1]\n{"resourceSpans": 7}\n\n\xff\xfe\n'
    path = write(good, good, bad, hostile, junk)
    traces = read_traces([path])
    assert traces.refused == {"not_an_export": 4, "duplicates": 1, "no_id": 1, "invalid_span_time": 2}
    outcome = tiers(traces)
    assert outcome.requests == 3
    result = CliRunner().invoke(app, ["tiers", str(path), "--service", "<script>\x1b[2J"])
    assert result.exit_code == 0, result.output
    assert "\x1b[2J" not in result.stdout
    packed = tmp_path / "spans.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert tiers(read_traces([tmp_path])).to_dict() == outcome.to_dict()


@pytest.mark.parametrize(
    ("arguments", "code", "token"),
    [
        (["nowhere.jsonl"], 1, "no such file"),
        (["EMPTY"], 1, "no span"),
        (["GOOD", "--service", "absent"], 1, "front"),
        (["GOOD", "--until", "2020-01-01T00:00Z"], 1, "no span"),
        (["GOOD", "--since", "soon"], 2, "is not an instant"),
        (["FOLDER"], 1, "holds no spans.jsonl"),
        (["chdb:///nowhere/at/all"], 1, "no store in this folder"),
        (["s3://somewhere"], 1, "neither a file nor a store"),
        ([], 2, "Missing argument"),
    ],
)
def test_rejects_unusable_arguments(
    write: Callable[..., Path], tmp_path: Path, arguments: list[str], code: int, token: str
) -> None:
    places = {"EMPTY": write(b""), "GOOD": write(one(server("s", "", 0, 1))), "FOLDER": tmp_path}
    result = CliRunner().invoke(app, ["tiers", *(str(places.get(a, a)) for a in arguments)])
    output = result.output + str(result.exception or "")
    assert result.exit_code == code or (code == 1 and isinstance(result.exception, SojournError))
    assert token in output


# --- laws

INTERVALS = st.tuples(st.floats(-5, 15), st.floats(0, 10)).map(lambda pair: (pair[0], pair[0] + pair[1]))


@hypothesis_settings(max_examples=60, deadline=None)
@given(
    shapes=st.lists(
        st.tuples(
            st.integers(0, 60),
            st.sampled_from([1, 2, 3, 5]),
            INTERVALS,
            st.none() | st.floats(-1, 3),
            st.sampled_from("abc"),
        ),
        max_size=24,
    )
)
def test_accounts_sum_to_the_response(
    write: Callable[..., Path],
    shapes: Sequence[tuple[int, int, tuple[float, float], float | None, str]],
) -> None:
    """The accounts sum to the response for trees of any shape, any clocks and any order of lines."""
    lines = [one(server("0", "", 10, 20, **{"queueing.delay": 1.0}))]
    for number, (parent, kind, (begin, end), wait, service) in enumerate(shapes, start=1):
        attributes = {} if wait is None else {"queueing.delay": wait}
        produced = span(TRACE, str(number), str(parent % number), kind, 10 + begin, 10 + end, **attributes)
        lines.append(one(produced, service=service))
    findings = result_in(write, *lines)
    parts = findings.per_request.select(*ACCOUNTS, "elsewhere").sum_horizontal()
    assert (parts - findings.per_request["response"]).abs().max() < 1e-6  # type: ignore[operator]
    spent = sum(sum(tier.seconds.values()) for tier in findings.services)
    assert math.isclose(spent + findings.elsewhere, findings.total, abs_tol=1e-6)
    repeated = result_in(write, *reversed(lines), *lines)
    assert repeated.total == findings.total
    for one_tier, other in zip(repeated.services, findings.services, strict=True):
        assert one_tier.seconds == pytest.approx(other.seconds, abs=1e-6)


# --- layout


def test_section_has_tables_and_charts(write: Callable[..., Path]) -> None:
    result, _ = result_of(replace(SHARED, requests=500), write)
    section = tiers_section(result)
    assert section.sentence.startswith(result.finding.sentence)
    assert all(len(row) == len(table.headings) for table in section.tables for row in table.rows)
    assert [picture.chart().to_dict()["$schema"][:5] for picture in section.pictures] == ["https", "https"]
    table = tiers_table(result)
    assert set(table["service"]) == {"checkout", "db"}
    assert table["seconds"].sum() == pytest.approx(result.response["mean"], rel=1e-4)
    assert 2 < len(load_table(result)) <= 40


def test_example_equals_the_output_of_the_simulator() -> None:
    """SOJOURN_RECORD=1 rewrites the example."""
    import os  # noqa: PLC0415

    settings = replace(SHARED, requests=600)
    text = as_lines(exports(simulated(settings), settings))
    path = ROOT / "docs/examples/checkout-spans.jsonl.gz"
    if os.environ.get("SOJOURN_RECORD"):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(gzip.compress(text, 9, mtime=0))
    assert gzip.decompress(path.read_bytes()) == text
    assert path.stat().st_size < 100_000


def test_simulator_is_work_conserving_and_fifo() -> None:
    """At the database, no request waits while the worker is free."""
    visits = simulated(replace(SHARED, requests=500))
    calls = sorted((sent, begun, done) for v in visits for sent, begun, done, *_ in v.calls)
    free = 0.0
    for sent, begun, done in calls:
        assert begun == pytest.approx(max(sent + SHARED.network, free))
        free = done
    assert tiers_simulator.SKEWS["db"] > 0.1
