"""The benchmark of captures runs beside its peers, on traffic that is read exactly as it was made."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from benchmarks.made_capture import write_capture
from benchmarks.made_frames import made_tracked
from benchmarks.made_traffic import Settings, made_traffic
from polars.testing import assert_frame_equal
from sojourn.explain.wire.tracker import track
from sojourn.readers.capture.reader import Capture

HOUSE = Path(__file__).parents[2]


@pytest.mark.parametrize("kept", [1, 4])
def test_made_traffic_is_read_as_it_was_made(kept: int, tmp_path: Path) -> None:
    traffic = made_traffic(Settings(requests=1500, kept=kept, dropped_syns=0.02, repeated=0.03))
    packets = write_capture(traffic, tmp_path / "made.pcap")
    with Capture([tmp_path / "made.pcap"], batch_bytes=1 << 16) as capture:
        found = track(capture, capture.addresses)
        assert (capture.counts.packets, capture.counts.segments) == (packets, packets)
    made = made_tracked(traffic)
    assert made.connections["syn_retransmissions"].sum() > 10
    assert made.exchanges["retransmissions"].sum() > 10
    assert_frame_equal(found.connections, made.connections)
    assert_frame_equal(found.exchanges, made.exchanges, rel_tol=0, abs_tol=1e-9)
    assert found.unparsed == {}
    assert found.connections["exchanges"].max() == kept if kept == 1 else found.connections["exchanges"].max() > 1


def test_a_snap_length_cuts_bodies_and_changes_no_figure(tmp_path: Path) -> None:
    traffic = made_traffic(Settings(requests=200))
    packets = write_capture(traffic, tmp_path / "cut.pcap", snaplen=262)
    with Capture([tmp_path / "cut.pcap"]) as capture:
        found = track(capture, capture.addresses)
        assert (capture.counts.segments, capture.counts.undecoded) == (packets, {})
        assert capture.counts.cut > 0
    made = made_tracked(traffic)
    assert_frame_equal(found.connections, made.connections)
    times = [name for name, dtype in made.exchanges.schema.items() if isinstance(dtype, pl.Datetime)]
    assert_frame_equal(
        found.exchanges.select("request_id", "path", *times), made.exchanges.select("request_id", "path", *times)
    )


def test_it_writes_its_table_as_json_and_markdown(tmp_path: Path) -> None:
    sizes = ["--packets", "4000", "--peer-packets", "1000", "--joined", "2000", "--repeats", "1"]
    command = [sys.executable, str(HOUSE / "analysis/benchmarks/wire.py"), *sizes, "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "wire.json").read_text())
    rows = {row["what"]: row for row in found["rows"]}
    assert {"reader", "reader and tracker", "sojourn pcap", "sojourn pcap, with the log"} <= set(rows)
    assert all(row["packets_per_second"] > 0 for row in rows.values())
    assert found["join"]["joined"] == found["join"]["requests"] == 2000
    assert (tmp_path / "wire.md").read_text().strip() in done.stdout
