"""The benchmark of captures runs against its peers, on traffic that is read back exactly."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import sojourn
from benchmarks.capture_generator import write_capture
from benchmarks.expected_frames import expected_tracked
from benchmarks.rows import Settings as BenchSettings
from benchmarks.rows import Slope
from benchmarks.suites import wire
from benchmarks.traffic_generator import Ints, Settings, generate_traffic, write_log
from polars.testing import assert_frame_equal
from sojourn.analyses.pcap.log_join import READ
from sojourn.analyses.pcap.run import pcap
from sojourn.analyses.pcap.tracker import track
from sojourn.readers.capture.reader import Capture


@pytest.mark.parametrize("per_connection", [1, 4])
def test_reads_generated_traffic_back(per_connection: int, tmp_path: Path) -> None:
    traffic = generate_traffic(Settings(requests=1500, per_connection=per_connection, dropped_syns=0.02, repeated=0.03))
    packets = write_capture(traffic, tmp_path / "made.pcap")
    with Capture([tmp_path / "made.pcap"], batch_bytes=1 << 16) as capture:
        result = track(capture, capture.addresses)
        assert (capture.counts.packets, capture.counts.segments) == (packets, packets)
    expected = expected_tracked(traffic)
    assert expected.connections["syn_retransmissions"].sum() > 10
    assert expected.exchanges["retransmissions"].sum() > 10
    assert_frame_equal(result.connections, expected.connections)
    assert_frame_equal(result.exchanges, expected.exchanges, rel_tol=0, abs_tol=1e-9)
    assert result.unparsed == {}
    exchanges = result.connections["exchanges"].max()
    assert exchanges == 1 if per_connection == 1 else exchanges > 1


def test_snap_length_cuts_bodies_and_changes_no_figure(tmp_path: Path) -> None:
    traffic = generate_traffic(Settings(requests=200))
    packets = write_capture(traffic, tmp_path / "cut.pcap", snaplen=262)
    with Capture([tmp_path / "cut.pcap"]) as capture:
        result = track(capture, capture.addresses)
        assert (capture.counts.segments, capture.counts.undecoded) == (packets, {})
        assert capture.counts.cut > 0
    expected = expected_tracked(traffic)
    assert_frame_equal(result.connections, expected.connections)
    times = [name for name, dtype in expected.exchanges.schema.items() if isinstance(dtype, pl.Datetime)]
    assert_frame_equal(
        result.exchanges.select("request_id", "path", *times), expected.exchanges.select("request_id", "path", *times)
    )


@pytest.mark.parametrize("with_log", [False, True])
def test_reconstructs_the_generated_waits(with_log: bool, tmp_path: Path) -> None:
    """Both sides are joined for every request, each wait within 0.1 ms, the clocks' resolution."""
    traffic = generate_traffic(Settings(requests=1500, per_connection=3, dropped_syns=0.02))
    write_capture(traffic, tmp_path / "made.pcap")
    write_log(traffic, tmp_path / "access.jsonl")
    log = sojourn.split([str(tmp_path / "access.jsonl")], columns=READ).rows if with_log else None
    result = pcap([tmp_path / "made.pcap"], log=log).timeline
    number = {row.tobytes().hex(): request for request, row in enumerate(traffic.identity)}
    order = np.array([number[identity] for identity in result["request_id"]])
    assert sorted(order) == list(range(len(traffic)))
    assert result["joined_by"].unique().to_list() == ["request_id" if with_log else "none"]
    assert (result["request_first"].to_physical().to_numpy() == traffic.request[order]).all()

    def error(column: str, true_ns: Ints) -> float:
        return float(np.abs(result[column].to_numpy() - true_ns[order] / 1e9).max())

    assert error("syn_dropped", traffic.syn_again - traffic.syn) < 1e-9
    assert result["syn_queue"].is_null().all(), "the capture is the proxy's: the backends' handshakes are round trips"
    wait = traffic.app_start - traffic.established
    assert error("accept_wait", wait) < 1e-4
    assert (result["accept_wait_lower"].to_numpy() <= wait[order] / 1e9).all()
    assert (result["accept_wait_upper"].to_numpy() >= wait[order] / 1e9).all()


@pytest.mark.parametrize("script", ["READER", "TRACKER", "SCAPY"])
def test_timed_scripts_read_every_packet(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if script == "SCAPY":
        pytest.importorskip("scapy")
    traffic = generate_traffic(Settings(requests=20))
    packets = write_capture(traffic, tmp_path / "made.pcap")
    monkeypatch.setattr(sys, "argv", ["-c", str(tmp_path / "made.pcap")])
    exec(compile(getattr(wire, script), script, "exec"), {})
    assert capsys.readouterr().out.strip() == str({"READER": packets, "TRACKER": 40, "SCAPY": packets}[script])


@pytest.mark.thorough
def test_measures_a_row_against_every_installed_peer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = {"reader"} | ({"tshark"} if shutil.which("tshark") else set())  # the others take seconds to start
    all_commands = wire.commands
    monkeypatch.setattr(
        wire, "commands", lambda files: {name: c for name, c in all_commands(files).items() if name in chosen}
    )
    grown = Slope("sojourn pcap", "packets", (1.0, 2.0), (1.0, 2.0))
    monkeypatch.setattr(wire, "_slope", lambda _: grown)
    result = wire.run(BenchSettings(repeats=1, scale=0.001, folder=tmp_path, progress=lambda _: None))
    read, joined = result.rows
    assert read.what.startswith("reader, ")
    assert read.ours > 0
    if "tshark" in chosen:
        assert (read.peer, read.ratio is not None and read.ratio > 0) == ("tshark", True)
        assert result.versions["tshark"]
    assert any("scapy" in reason for reason in result.skipped)
    assert joined.what.startswith("joining 1,000 requests")
    assert joined.note.startswith("1,000 by their request id")
    assert result.slopes == [grown]


def test_start_is_measured_with_a_capture_of_one_request(tmp_path: Path) -> None:
    files = wire.write_files(BenchSettings(repeats=1, scale=0.001, folder=tmp_path, progress=lambda _: None))
    with_log = wire.commands(files)["sojourn pcap, with the log"]
    one = [*with_log[:4], str(files.one), "--json", "--limit", "0", "--log", str(files.log_of_one)]
    assert wire.of_one(with_log, files) == one
    assert len(files.log_of_one.read_text().splitlines()) == 1
