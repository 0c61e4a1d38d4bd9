"""Packets out of the order of time are sorted or refused; packets that are in a capture twice are counted."""

from __future__ import annotations

import gzip
import shutil
import subprocess
from pathlib import Path

import polars as pl
import pytest
from captures import SECOND, START, Frame, linked, pcap, segment
from reader_support import all_of, written
from segment_builder import MS
from sojourn.analyses.pcap.run import pcap as wire
from sojourn.analyses.pcap.section import wire_section
from sojourn.cli import app
from sojourn.model.errors import SojournError
from sojourn.readers.capture import time_order
from typer.testing import CliRunner

EXAMPLE = Path(__file__).parents[4] / "docs/examples/wire.pcap.gz"
needs_wireshark = pytest.mark.skipif(
    not all(map(shutil.which, ("tshark", "editcap", "mergecap", "reordercap"))), reason="no editcap, mergecap, tshark"
)
ADVICE = "sort them with: reordercap IN OUT"


def run(*command: str | Path) -> str:
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("order") / "wire.pcap"
    path.write_bytes(gzip.decompress(EXAMPLE.read_bytes()))
    return path


def facts(path: Path) -> tuple[int, int, int]:
    result = wire(path)
    return len(result.connections), result.syn_retransmissions, len(result.exchanges)


def frames_at(times: list[float]) -> list[Frame]:
    """A SYN from a port of its own at each of these ms."""
    return [Frame(START + round(ms * MS), linked(segment(sport=20_000 + k, flags="S"))) for k, ms in enumerate(times)]


@needs_wireshark
def test_swapped_halves_are_refused_and_reordercap_mends_them(example: Path, tmp_path: Path) -> None:
    count = len(run("tshark", "-n", "-r", example, "-T", "fields", "-e", "frame.number").split())
    first, second = tmp_path / "first.pcap", tmp_path / "second.pcap"
    run("editcap", "-F", "pcap", "-r", example, first, f"1-{count // 2}")
    run("editcap", "-F", "pcap", "-r", example, second, f"{count // 2 + 1}-{count}")
    swapped, mended = tmp_path / "swapped.pcap", tmp_path / "mended.pcap"
    run("mergecap", "-a", "-F", "pcap", "-w", swapped, second, first)
    with pytest.raises(SojournError, match=rf"swapped\.pcap: the packets are not in the order of time.*{ADVICE}"):
        wire(swapped)
    run("reordercap", swapped, mended)
    assert facts(mended) == facts(example)


@needs_wireshark
def test_an_appended_copy_is_refused_and_a_merged_one_is_counted_as_duplicates(example: Path, tmp_path: Path) -> None:
    appended, merged = tmp_path / "appended.pcap", tmp_path / "merged.pcap"
    run("mergecap", "-a", "-F", "pcap", "-w", appended, example, example)
    with pytest.raises(SojournError, match=ADVICE):
        wire(appended)
    run("mergecap", "-F", "pcap", "-w", merged, example, example)
    assert facts(merged) == facts(example)
    result = wire(merged)
    removed = tmp_path / "removed.pcap"
    run("editcap", "-F", "pcap", "-D", "50", merged, removed)  # tshark's own search for duplicates
    by_editcap = (merged.stat().st_size - removed.stat().st_size) / (merged.stat().st_size - 24)
    assert result.duplicates == result.counts.packets // 2
    assert result.duplicates / result.counts.packets == pytest.approx(by_editcap, abs=0.01)
    once = wire(example)
    again = ("client_retransmissions", "server_retransmissions", "syn_ack_retransmissions", "acks_doubtful")
    assert result.connections.select(pl.col(again).sum()).equals(once.connections.select(pl.col(again).sum()))


@needs_wireshark
def test_a_little_disorder_is_sorted_as_reordercap_does(example: Path, tmp_path: Path) -> None:
    """Two interfaces' packets in blocks of 200 ms, as capture queues deliver them."""
    data = example.read_bytes()
    records, at = [], 24
    while at < len(data):
        size = 16 + int.from_bytes(data[at + 8 : at + 12], "little")
        records.append(data[at : at + size])
        at += size
    blocks: dict[int, list[bytes]] = {}
    unit = 1 if data[:4] == b"\x4d\x3c\xb2\xa1" else 1000
    for record in records:
        seconds, fraction = (int.from_bytes(record[k : k + 4], "little") for k in (0, 4))
        blocks.setdefault((seconds * 10**9 + fraction * unit) // (200 * MS), []).append(record)
    mixed = [record for block in blocks.values() for part in (block[1::2], block[::2]) for record in part]
    assert mixed != records
    path = written(tmp_path, data[:24] + b"".join(mixed))
    run("reordercap", path, tmp_path / "sorted.pcap")
    assert facts(path) == facts(tmp_path / "sorted.pcap") == facts(example)


@pytest.mark.parametrize("batch_bytes", [64, 300, 1 << 20])
def test_packets_within_a_second_are_sorted_whatever_the_size_of_a_batch(tmp_path: Path, batch_bytes: int) -> None:
    times = [0, 5, 3, 4, 900, 100, 899, 1500, 1400, 3000, 2001, 2000, 2999, 3001]
    path = written(tmp_path, pcap(frames_at(times)))
    rows, _, _ = all_of(path, batch_bytes=batch_bytes)
    assert [(row[3] - START) / MS for row in rows] == sorted(times)
    assert [times[row[2] - 1] for row in rows] == sorted(times)


@pytest.mark.parametrize("batch_bytes", [64, 300, 1 << 20])
def test_a_packet_older_by_more_than_a_second_is_refused_with_its_number(tmp_path: Path, batch_bytes: int) -> None:
    path = written(tmp_path, pcap(frames_at([0, 2000, 2100, 1000, 2200])))
    with pytest.raises(SojournError, match=r"packet 4 is 1\.1 s older than one before it"):
        all_of(path, batch_bytes=batch_bytes)


def test_payload_remains_with_its_packet(tmp_path: Path) -> None:
    order = [3, 1, 2, 0, 7, 4, 6, 5, 9, 8]
    content = [
        Frame(START + k * MS, linked(segment(seq=k, flags="PA", payload=f"payload {k}".encode() * (k + 1))))
        for k in order
    ]
    for batch_bytes in (64, 200, 1 << 20):
        rows, _, _ = all_of(written(tmp_path, pcap(content)), batch_bytes=batch_bytes)
        assert [row[-1] for row in rows] == [f"payload {k}".encode() * (k + 1) for k in range(10)]


def test_sorting_window_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_order, "MOST_SEGMENTS", 10)
    times = [k + (0.5 if k % 2 else -0.9) for k in range(500)]
    rows, _, _ = all_of(written(tmp_path, pcap(frames_at(times))), batch_bytes=200)
    assert [row[3] for row in rows] == sorted(row[3] for row in rows)
    with pytest.raises(SojournError, match=ADVICE):
        all_of(written(tmp_path, pcap(frames_at([*range(100), 50]))), batch_bytes=200)


def test_the_command_refuses_it_in_one_line(tmp_path: Path) -> None:
    path = written(tmp_path, pcap(frames_at([5000, 6000, 0])))
    done = CliRunner().invoke(app, ["pcap", str(path), "--quiet"])
    assert done.exit_code == 1
    assert isinstance(done.exception, SojournError)
    assert "packet 3 is 6.0 s older" in str(done.exception)
    assert "\n" not in str(done.exception)


def test_files_that_overlap_in_time_are_named(tmp_path: Path) -> None:
    begin = written(tmp_path, pcap(frames_at([0, 5000])), "one.pcap")
    other = [Frame(frame.time + SECOND, frame.data) for frame in frames_at([0, 9000])]
    result = wire([begin, written(tmp_path, pcap(other), "two.pcap")])
    assert result.counts.overlapping == [(str(tmp_path / "one.pcap"), str(tmp_path / "two.pcap"))]
    assert any("mergecap" in note for note in wire_section(result).notes)
    later = [Frame(frame.time + 5 * SECOND, frame.data) for frame in frames_at([0, 9000])]
    assert wire([begin, written(tmp_path, pcap(later), "two.pcap")]).counts.overlapping == []
