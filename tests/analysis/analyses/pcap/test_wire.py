"""The analysis of a capture's frames: figures, counts, agreement with the log, findings."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Collection
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest
from sojourn.analyses.pcap.agreement import RESOLUTION, wire_check
from sojourn.analyses.pcap.analysis import checked_backend, wire_of
from sojourn.analyses.pcap.frames import CONNECTIONS, EXCHANGES
from sojourn.analyses.pcap.result import FIGURES, Agreed, Joined, WireResult
from sojourn.analyses.pcap.section import wire_section
from sojourn.analyses.pcap.summary_section import split_wire_section
from sojourn.analyses.pcap.tallies import syn_steps
from sojourn.analyses.pcap.tracking_result import TrackingResult
from sojourn.components.split import split_rows
from sojourn.model.errors import SojournError
from sojourn.model.formatting import rounded
from sojourn.readers.capture.batch import Counts
from syrupy.assertion import SnapshotAssertion
from wire_simulator import Wire, WireSettings, simulated_wire


def analysed(wire: Wire, *, log: bool = True, **more: object) -> WireResult:
    rows = split_rows(wire.rows.lazy()).rows if log else None
    return wire_of(wire.tracked, Counts(), ("made.pcap",), (), rows=rows, **more)


def test_figures_are_those_of_the_requests() -> None:
    wire = simulated_wire(WireSettings(syn_dropped=0.05, ack_dropped=0.02))
    result = analysed(wire)
    truth = wire.truth.filter("first")
    assert result.sizes["accept_wait"] == len(truth)
    for name, column in (("accept_wait", "accept_wait"), ("syn_dropped", "syn_dropped")):
        assert result.figures[name]["mean"] == pytest.approx(truth[column].mean(), abs=1e-4)
        assert result.figures[name]["max"] == pytest.approx(truth[column].max(), abs=1e-4)
    assert result.figures["handshake"]["max"] > 1
    at_both_ends = analysed(simulated_wire(WireSettings(requests=100, loopback=True))).figures
    assert set(result.figures) | set(at_both_ends) == set(FIGURES)
    assert set(result.figures) - set(at_both_ends) == {"round_trip", "proxy_round_trip"}
    assert result.negative["accept_wait"] == 0


def test_the_parts_make_up_the_split_s_queueing_delay() -> None:
    result = analysed(simulated_wire(WireSettings(syn_dropped=0.05)))
    assert result.split is not None
    parts = sum(result.split[name] for name in ("syn_dropped", "handshake", "accept_wait"))
    assert result.split["queueing_delay"] == pytest.approx(parts, abs=2e-4)
    assert result.split["syn_dropped"] > 0.03
    assert result.split["requests"] == 2_000


def test_the_log_of_an_idle_nginx_agrees_with_the_wire() -> None:
    result = analysed(simulated_wire(WireSettings()))
    agreed = {row.figure: row for row in result.agreement}
    assert set(agreed) == {
        "request_time", "upstream_connect_time", "upstream_header_time", "upstream_response_time", "queue",
    }  # fmt: skip
    for row in agreed.values():
        assert row.requests >= 1_990
        assert row.p99 is not None
        assert row.p99 <= RESOLUTION
        assert row.beyond == 0
    assert agreed["queue"].spread is not None
    assert agreed["queue"].spread < 0.001
    (check,) = result.checks
    assert (check.name, check.verdict) == ("wire", "pass")


def test_a_log_with_other_times_does_not_agree() -> None:
    wire = simulated_wire(WireSettings())
    late = wire.rows.with_columns(pl.col("header", "response") + 0.02)
    result = analysed(Wire(wire.tracked, late, wire.truth, wire.backends))
    (check,) = result.checks
    assert check.verdict == "fail"
    assert "upstream_header_time by 2" in check.sentence
    agreed = {row.figure: row for row in result.agreement}
    assert agreed["upstream_header_time"].beyond == 2_000
    assert agreed["upstream_header_time"].median == pytest.approx(0.02, abs=0.001)


def test_answers_that_nginx_no_longer_waited_for_are_not_compared() -> None:
    wire = simulated_wire(WireSettings(requests=200))
    gone = wire.rows.with_columns(status=pl.lit(504, pl.Int16), header=pl.lit(None, pl.Float64))
    agreed = {
        row.figure: row.requests for row in analysed(Wire(wire.tracked, gone, wire.truth, wire.backends)).agreement
    }
    assert "upstream_response_time" not in agreed
    assert agreed["upstream_connect_time"] == 200


def test_few_joined_records_are_a_failure_with_their_reasons(snapshot: SnapshotAssertion) -> None:
    check = wire_check((), Joined(100, {"request_id": 40}, {"not_found": 50, "ambiguous": 10}))
    assert check.verdict == "fail"
    assert check.value == 0.4
    assert re.findall(r"\d+", check.sentence) == ["40", "100", "50", "10"]
    assert check.sentence == snapshot
    assert wire_check((), Joined(0)).verdict == "unknown"
    assert wire_check((Agreed("queue", 5, 0.0, 9.0, 9.0, 5),), Joined(5, {"tuple": 5})).verdict == "unknown"


def test_steps_are_when_a_repeated_syn_was_answered() -> None:
    wire = simulated_wire(WireSettings(requests=4))
    delays = {0: 1.03, 1: 3.05, 2: 3.01, 3: 0.21}
    connections = wire.tracked.connections.head(4)
    moved = [connections["syn"][k] + timedelta(seconds=delay) for k, delay in delays.items()]
    tried = connections.with_columns(
        pl.Series("syn_answered", moved, dtype=connections.schema["syn_answered"]), leg=pl.lit("backend"),
        syn_retransmissions=pl.Series([1, 2, 2, 1], dtype=pl.Int32),
    )  # fmt: skip
    never = tried.head(1).with_columns(
        syn_answered=pl.lit(None, connections.schema["syn"]), syn_ack=pl.lit(None, connections.schema["syn"]),
        last=pl.col("syn") + pl.duration(seconds=7, time_unit="ns"),
    )  # fmt: skip
    steps = syn_steps(pl.concat([tried, never]))
    assert [tuple(row) for row in steps.drop("leg").iter_rows()] == [
        (0.2, True, 1, 1), (1.0, True, 1, 1), (3.0, True, 2, 4), (7.0, False, 1, 1),
    ]  # fmt: skip


def test_findings_name_dropped_packets_and_servers_count_them(snapshot: SnapshotAssertion) -> None:
    wire = simulated_wire(WireSettings(syn_dropped=0.05, ack_dropped=0.02, loopback=True))
    result = analysed(wire)
    dropped = int((wire.truth["syn_dropped"] > 0).sum())
    assert result.findings[0].startswith(f"{dropped} SYNs to backends ")
    assert f"(answered at +1 s: {dropped})" in result.findings[0]
    assert any("final ACK to backends" in finding for finding in result.findings)
    assert result.findings == snapshot
    backends = result.servers.filter(pl.col("leg") == "backend")
    assert backends["syn_retransmissions"].sum() == dropped == result.syn_retransmissions
    assert result.servers["connections"].sum() == len(result.connections)
    assert result.ends == {"fin": len(result.connections)}


def test_refused_unanswered_and_reset_connections_are_findings(snapshot: SnapshotAssertion) -> None:
    wire = simulated_wire(WireSettings(requests=100))
    at = pl.col("connection") - 100
    ends = pl.when(at == 0).then(pl.lit("refused")).when(at == 1).then(pl.lit("unanswered"))
    ends = ends.when(at == 2).then(pl.lit("reset_by_server")).otherwise(pl.col("end").cast(pl.String))
    connections = wire.tracked.connections.with_columns(end=ends.cast(CONNECTIONS["end"]))
    result = analysed(Wire(TrackingResult(connections, wire.tracked.exchanges), wire.rows, wire.truth, wire.backends))
    assert sum(finding.startswith("1 connection ") for finding in result.findings) == 3
    assert result.findings == snapshot
    assert result.ends == {"fin": 197, "refused": 1, "reset_by_server": 1, "unanswered": 1}


def test_repeated_first_requests_are_a_finding(snapshot: SnapshotAssertion) -> None:
    wire = simulated_wire(WireSettings(requests=100))
    exchanges = wire.tracked.exchanges.with_columns(
        retransmissions=pl.when(pl.col("exchange").is_in([100, 101])).then(1).otherwise(0).cast(pl.Int32)
    )
    connections = wire.tracked.connections.with_columns(client_retransmissions=pl.lit(1, pl.Int32))
    result = analysed(Wire(TrackingResult(connections, exchanges), wire.rows, wire.truth, wire.backends))
    assert any(finding.startswith("2 first requests to backends ") for finding in result.findings)
    assert result.findings == snapshot


def test_notes_name_unknown_values_and_the_clock_offset(snapshot: SnapshotAssertion) -> None:
    bare = analysed(simulated_wire(WireSettings(requests=100, stamps=False, answers=False)), log=False)
    assert any("--backend ADDR:PORT" in note for note in bare.notes)
    assert any("service time of 200 requests" in note for note in bare.notes)
    assert bare.notes == snapshot
    assert bare.checks == ()
    moved = analysed(simulated_wire(WireSettings(requests=300, capture_ahead=0.4)))
    assert any("+400" in note or "+399" in note for note in moved.notes)


def test_since_and_until_select_connections() -> None:
    wire = simulated_wire(WireSettings(requests=1_000))
    whole = analysed(wire)
    assert whole.window is not None
    middle = whole.window[0] + (whole.window[1] - whole.window[0]) / 2
    early, late = analysed(wire, until=middle), analysed(wire, since=middle)
    assert len(early.connections) + len(late.connections) == len(whole.connections)
    assert 0 < len(early.timeline) < len(whole.timeline)
    assert early.window is not None
    assert early.connections["first"].max() < middle


def test_empty_capture_is_no_error(snapshot: SnapshotAssertion) -> None:
    nothing = TrackingResult(pl.DataFrame(schema=CONNECTIONS), pl.DataFrame(schema=EXCHANGES))
    result = wire_of(nothing, Counts())
    assert result.window is None
    assert result.figures == {}
    json.dumps(rounded(result.to_dict()))
    logged = wire_of(nothing, Counts(), rows=split_rows(simulated_wire(WireSettings(requests=10)).rows.lazy()).rows)
    assert logged.checks[0].verdict == "unknown"
    assert split_wire_section(logged).sentence == snapshot


def test_the_json_has_the_keys_others_rely_on() -> None:
    reported = rounded(analysed(simulated_wire(WireSettings(requests=300))).to_dict(limit=7))
    assert {
        "packets", "undecoded", "connections", "syn_retransmissions", "handshake", "accept_wait_bounds", "joined",
        "requests",
    } <= set(reported)  # fmt: skip
    assert set(reported["accept_wait_bounds"]) == {"lower", "upper"}
    assert len(reported["requests"]) == 7
    assert reported["requests_left_out"] == 293
    assert reported["requests"][0]["backend_syn"].endswith("Z")
    assert len(reported["requests"][0]["backend_syn"]) == len("2026-01-01T00:00:00.000000Z")
    json.dumps(reported)


def test_the_timeline_is_written_whole(tmp_path: Path) -> None:
    result = analysed(simulated_wire(WireSettings(requests=50)))
    result.write_parquet(tmp_path / "wire.parquet")
    assert pl.read_parquet(tmp_path / "wire.parquet").equals(result.timeline)
    with pytest.raises(SojournError):
        result.write_parquet(tmp_path / "no" / "such" / "folder.parquet")


def test_backends_are_addresses_with_ports() -> None:
    assert checked_backend("8000") == ":8000"
    assert checked_backend(":8000") == ":8000"
    assert checked_backend("10.0.0.1:80") == "10.0.0.1:80"
    assert checked_backend("[fd00::7]:80") == "[fd00::7]:80"
    for wrong in ("10.0.0.1", "fd00::7:80", "app:http", "10.0.0.1:0", "10.0.0.1:70000", ""):
        with pytest.raises(SojournError, match="is not a backend"):
            checked_backend(wrong)


def test_the_split_s_section_divides_connect_and_queue() -> None:
    wire = simulated_wire(WireSettings(syn_dropped=0.05))
    section = split_wire_section(analysed(wire))
    assert "2,000 of 2,000 requests (100 %)" in section.sentence
    assert "dropped SYNs" in section.sentence
    (table,) = section.tables
    names = [row[0] for row in table.rows]
    assert "accept queue, to the app's start" in names
    assert not any("at most" in name for name in names)
    unknown = simulated_wire(WireSettings(answers=False))
    bounded = [row[0] for row in split_wire_section(analysed(unknown)).tables[0].rows]
    assert "accept queue, at most" in bounded


@pytest.mark.parametrize("seed", range(6))
def test_frames_with_missing_values_raise_no_error(seed: int) -> None:
    rng = random.Random(seed)

    def holed(frame: pl.DataFrame, columns: Collection[str]) -> pl.DataFrame:
        """Four of ten values of some columns are missing, or go to another row."""
        holes = []
        for name, dtype in frame.schema.items():
            if name in columns or rng.random() > 0.4:
                continue
            mask = pl.Series([rng.random() < 0.4 for _ in range(len(frame))])
            shuffled = pl.col(name).shuffle(seed) if dtype.is_numeric() and rng.random() < 0.3 else pl.col(name)
            holes.append(pl.when(~mask).then(shuffled).otherwise(pl.lit(None, dtype)).alias(name))
        return frame.with_columns(holes)

    wire = simulated_wire(
        WireSettings(requests=60, per_connection=1 + seed % 3, keepalive=1 + seed % 2, retried=0.2, tls=seed == 5)
    )
    counted = [name for name, dtype in CONNECTIONS.items() if dtype == pl.Int32()]
    reported = ("connection", "client", "server", "first", "last", "end", "protocol", *counted)
    connections = holed(wire.tracked.connections, reported)
    exchanges = holed(wire.tracked.exchanges, ("exchange", "connection", "number"))
    rows = holed(wire.rows, ("time", "start", "status", "request_time", "app_garbled"))
    for log in (True, False):
        result = analysed(Wire(TrackingResult(connections, exchanges), rows, wire.truth, wire.backends), log=log)
        json.dumps(rounded(result.to_dict()))
        assert wire_section(result).sentence
        assert split_wire_section(result).sentence
        assert len(result.timeline) >= 60
