"""How many packets a second are read, beside tshark and scapy in the same run, and what joining them to the log costs.

    .venv/bin/python analysis/benchmarks/wire.py [--packets 1000000] [--peer-packets 100000] [--joined 1000000]
                                                 [--repeats 3] [--out DIR]

Every row is a whole process, from its start to its exit, on made traffic of both sides of a proxy (``made_capture``).
Ours read all packets. The peers read a capture of the same kind with fewer of them; what they need for a capture
without packets is taken off before their packets per second are reckoned, to their advantage. tshark prints the fields
that the reader and the tracker find, its TCP analysis included; scapy takes each packet apart as far as TCP. Medians of
the repeats, interleaved, so that a slow minute of the machine hits all of them. The log join is timed without the
reading of the log: connections, exchanges and rows are there. Writes wire.json and wire.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from benchmarks.bench import measured
from benchmarks.made_capture import write_capture
from benchmarks.made_traffic import Settings, made_traffic, write_log

PACKETS_OF_REQUEST = 20
FIELDS = (
    "frame.time_epoch", "ip.src", "ip.dst", "tcp.srcport", "tcp.dstport", "tcp.seq_raw", "tcp.ack_raw", "tcp.flags",
    "tcp.window_size_value", "tcp.len", "tcp.stream", "tcp.analysis.retransmission", "tcp.analysis.zero_window",
    "http.request.method", "http.request.uri", "http.response.code",
)  # fmt: skip

READER = """
import sys
from sojourn.readers.capture.reader import Capture
with Capture(sys.argv[1:]) as capture:
    print(sum(len(batch) for batch in capture))
"""
TRACKER = """
import sys
from sojourn.explain.wire.tracker import track
from sojourn.readers.capture.reader import Capture
with Capture(sys.argv[1:]) as capture:
    print(track(capture, capture.addresses).exchanges.height)
"""
SCAPY = """
import sys
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.utils import PcapReader
found = 0
with PcapReader(sys.argv[1]) as capture:
    for packet in capture:
        ip, tcp = packet[IP], packet[TCP]
        fields = packet.time, ip.src, ip.dst, tcp.sport, tcp.dport, tcp.seq, tcp.ack, tcp.flags, tcp.window
        found += len(fields)
"""
JOIN = """
import json, sys, time
import polars as pl, sojourn
from benchmarks.made_frames import made_tracked
from benchmarks.made_traffic import Settings, made_traffic, write_log
from pathlib import Path
from sojourn.explain.wire.timeline import timeline
from sojourn.frame import COLUMNS
settings, log = Settings(requests=int(sys.argv[1]), kept=3), Path(sys.argv[2])
traffic = made_traffic(settings)
write_log(traffic, log)
with_log, few = made_tracked(traffic), made_traffic(Settings(requests=500, kept=3))
log_of_few = log.with_name("few.jsonl")
write_log(few, log_of_few)
def joined(tracked, path):
    rows = sojourn.read([str(path)], columns=COLUMNS).rows
    rows = rows.collect().lazy()
    begin = time.perf_counter()
    found = timeline(tracked, rows)
    return time.perf_counter() - begin, found
joined(made_tracked(few), log_of_few)
seconds, found = joined(with_log, log)
one = found.frame.filter(pl.col("joined_by") == "request_id").height
print(json.dumps({"seconds": seconds, "rows": found.frame.height, "joined": one}))
"""


def commands(large: Path, small: Path, log: Path) -> dict[str, list[str]]:
    """Name -> command; peers only where they are installed."""
    python = sys.executable
    found = {
        "reader": [python, "-c", READER, str(large)],
        "reader and tracker": [python, "-c", TRACKER, str(large)],
        "sojourn pcap": [python, "-m", "sojourn", "pcap", str(large), "--json", "--limit", "0"],
        "sojourn pcap, with the log": [
            python, "-m", "sojourn", "pcap", str(large), "--log", str(log), "--json", "--limit", "0",
        ],
    }  # fmt: skip
    if shutil.which("tshark"):
        found["tshark"] = ["tshark", "-n", "-r", str(small), "-T", "fields", *(p for f in FIELDS for p in ("-e", f))]
    else:
        print("bench: tshark is not installed; its row is left out", file=sys.stderr)  # noqa: T201
    if find_spec("scapy"):
        found["scapy"] = [python, "-c", SCAPY, str(small)]
    else:
        print("bench: scapy is not installed; its row is left out", file=sys.stderr)  # noqa: T201
    return found


def result(
    packets: int, peer_packets: int, joined: int, repeats: int, progress: Callable[[str], None]
) -> dict[str, object]:
    """Rows of name, packets, seconds (median), spread, peak MB, packets per second and the ratios to the peers."""
    with tempfile.TemporaryDirectory(prefix="sojourn-bench-") as name:
        folder = Path(name)
        progress(f"making captures of {packets:,} and {peer_packets:,} packets")
        traffic = made_traffic(Settings(requests=max(packets // PACKETS_OF_REQUEST, 1)))
        few = made_traffic(Settings(requests=max(peer_packets // PACKETS_OF_REQUEST, 1)))
        large, small, empty, log = (folder / file for file in ("large.pcap", "small.pcap", "empty.pcap", "log.jsonl"))
        many, fewer = write_capture(traffic, large), write_capture(few, small)
        write_capture(made_traffic(Settings(requests=0)), empty)
        write_log(traffic, log)
        jobs = commands(large, small, log)
        peers = [name for name in ("tshark", "scapy") if name in jobs]
        runs: dict[str, list[tuple[float, float]]] = {job: [] for job in jobs}
        idle: dict[str, list[float]] = {peer: [] for peer in peers}
        for turn in range(repeats):
            for job, command in jobs.items():
                progress(f"{turn + 1}/{repeats} {job}")
                runs[job].append(measured(command))
                if job in idle:
                    idle[job].append(measured([part.replace(str(small), str(empty)) for part in command])[0])
        progress(f"joining {joined:,} requests to their log")
        join = join_cost(joined, folder)
    rate = {}
    for job, found in runs.items():
        seconds = statistics.median(s for s, _ in found)
        rate[job] = fewer / max(seconds - statistics.median(idle[job]), 1e-3) if job in idle else many / seconds
    rows = [
        {
            "what": job,
            "packets": fewer if job in idle else many,
            "seconds": round(statistics.median(s for s, _ in found), 2),
            "from": round(min(s for s, _ in found), 2),
            "to": round(max(s for s, _ in found), 2),
            "peak_mb": round(max(mb for _, mb in found)),
            "packets_per_second": round(rate[job]),
            **{f"to_{peer}": round(rate[job] / rate[peer], 1) for peer in peers},
        }
        for job, found in runs.items()
    ]
    return {
        "repeats": repeats,
        "rows": rows,
        "join": join,
        "versions": {"python": platform.python_version(), **{name: version(name) for name in ("numpy", "polars")}},
        "machine": {"cores": os.cpu_count(), "system": platform.platform()},
    }


def join_cost(requests: int, folder: Path) -> dict[str, float]:
    """Seconds of the join of so many requests of both sides to their log, rows of the timeline, and how many joined."""
    command = [sys.executable, "-c", JOIN, str(requests), str(folder / "joined.jsonl")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"bench: the join ended with {done.returncode}: {done.stderr.strip().splitlines()[-1:]}")
    found: dict[str, float] = json.loads(done.stdout)
    return {"requests": requests, **found}


def as_markdown(found: dict[str, object]) -> str:
    """The rows as a table."""
    rows, join = found["rows"], found["join"]
    assert isinstance(rows, list)  # noqa: S101
    assert isinstance(join, dict)  # noqa: S101
    peers = [key for key in rows[0] if key.startswith("to_")]
    lines = [
        f"Packets of both sides of a proxy, whole processes, median of {found['repeats']}\n",
        f"| what | packets | s | from – to | peak MB | packets/s | {' | '.join('× ' + p[3:] for p in peers)} |",
        "| --- " * (6 + len(peers)) + "|",
    ]
    for row in rows:
        ratios = " | ".join(f"{row[peer]:,}" for peer in peers)
        lines.append(
            f"| {row['what']} | {row['packets']:,} | {row['seconds']} | {row['from']} – {row['to']} | {row['peak_mb']} "
            f"| {row['packets_per_second']:,} | {ratios} |"
        )
    lines.append(
        f"\nLog join of {join['requests']:,} requests, both sides: {join['seconds']:.2f} s; "
        f"{join['joined']:,} joined by their request id."
    )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print the table, write both files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packets", type=int, default=1_000_000)
    parser.add_argument("--peer-packets", type=int, default=100_000)
    parser.add_argument("--joined", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("runs/bench"))
    options = parser.parse_args()
    found = result(
        options.packets,
        options.peer_packets,
        options.joined,
        options.repeats,
        lambda text: print(f"bench: {text}", file=sys.stderr),  # noqa: T201
    )
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "wire.json").write_text(json.dumps(found, indent=2) + "\n")
    (options.out / "wire.md").write_text(as_markdown(found))
    print(as_markdown(found))  # noqa: T201


if __name__ == "__main__":
    main()
