"""How many packets a second are read, beside tshark and scapy in the same run, and what joining them to the log costs.

    .venv/bin/python analysis/benchmarks/wire.py [--packets 1000000] [--scapy-packets 100000] [--joined 1000000]
                                                 [--repeats 3] [--peer-repeats 1] [--out DIR]

Every row is a process of its own on made traffic of both sides of a proxy (``made_capture``). Its start, what it needs
for a capture of one request, is taken off before packets per second are reckoned, for each row alike.
tshark reads the same packets and prints the fields that the reader and the tracker find, its TCP analysis included;
scapy takes each packet apart as far as TCP, for fewer packets, as each costs it the same. Medians of the repeats,
interleaved, so that a slow minute of the machine hits all of them. The log join is timed without the reading of the
log: connections, exchanges and rows are there. Writes wire.json and wire.md.
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

from benchmarks.made_capture import write_capture
from benchmarks.made_traffic import Settings, made_traffic, write_log

PACKETS_OF_REQUEST = 20
PEERS = ("tshark", "scapy")
WITH_LOG = "sojourn pcap, with the log"
FIELDS = (
    "frame.time_epoch", "ip.src", "ip.dst", "tcp.srcport", "tcp.dstport", "tcp.seq_raw", "tcp.ack_raw", "tcp.flags",
    "tcp.window_size_value", "tcp.len", "tcp.stream", "tcp.analysis.retransmission", "tcp.analysis.zero_window",
    "http.request.method", "http.request.uri", "http.response.code",
)  # fmt: skip

# Starts a command from a small process: what a process is started from counts into the peak of its memory.
MEASURED = """
import os, sys, time
begin = time.perf_counter()
found = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, file_actions=[
    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0), (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)])
_, status, usage = os.wait4(found, 0)
print(time.perf_counter() - begin, usage.ru_maxrss / 1024, os.waitstatus_to_exitcode(status))
"""
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
        found += len(fields) > 0
    print(found)
"""
JOIN = """
import json, sys, time
import polars as pl, sojourn
from benchmarks.made_frames import made_tracked
from benchmarks.made_traffic import Settings, made_traffic, write_log
from pathlib import Path
from sojourn.explain.wire.timeline import timeline
from sojourn.explain.wire.wire import LOG_COLUMNS
settings, log = Settings(requests=int(sys.argv[1]), kept=3), Path(sys.argv[2])
traffic = made_traffic(settings)
write_log(traffic, log)
with_log, few = made_tracked(traffic), made_traffic(Settings(requests=500, kept=3))
log_of_few = log.with_name("few.jsonl")
write_log(few, log_of_few)
def joined(tracked, path):
    rows = sojourn.split([str(path)], columns=LOG_COLUMNS).rows.collect().lazy()
    begin = time.perf_counter()
    found = timeline(tracked, rows)
    return time.perf_counter() - begin, found
joined(made_tracked(few), log_of_few)
seconds, found = joined(with_log, log)
one = found.frame.filter(pl.col("joined_by") == "request_id").height
print(json.dumps({"seconds": seconds, "rows": found.frame.height, "joined": one}))
"""


def measured(command: list[str]) -> tuple[float, float]:
    """Wall seconds and peak MB of a command that must succeed."""
    small = [sys.executable, "-S", "-c", MEASURED, *command]
    done = subprocess.run(small, capture_output=True, text=True, check=True)
    seconds, megabytes, status = done.stdout.split()
    if status != "0":
        raise SystemExit(f"bench: {command[0]} ended with {status}: {done.stderr.strip().splitlines()[-1:]}")
    return float(seconds), float(megabytes)


def commands(large: Path, small: Path, log: Path) -> dict[str, list[str]]:
    """Name -> command; peers only where they are installed."""
    python = sys.executable
    pcap = [python, "-m", "sojourn", "pcap", str(large), "--json", "--limit", "0"]
    found = {
        "reader": [python, "-c", READER, str(large)],
        "reader and tracker": [python, "-c", TRACKER, str(large)],
        "sojourn pcap": pcap,
        WITH_LOG: [*pcap, "--log", str(log)],
    }
    if shutil.which("tshark"):
        found["tshark"] = ["tshark", "-n", "-r", str(large), "-T", "fields", *(p for f in FIELDS for p in ("-e", f))]
    else:
        print("bench: tshark is not installed; its row is left out", file=sys.stderr)  # noqa: T201
    if find_spec("scapy"):
        found["scapy"] = [python, "-c", SCAPY, str(small)]
    else:
        print("bench: scapy is not installed; its row is left out", file=sys.stderr)  # noqa: T201
    return found


def result(
    packets: int, scapy_packets: int, joined: int, repeats: tuple[int, int], progress: Callable[[str], None]
) -> dict[str, object]:
    """Rows of name, packets, seconds (median), spread, start, peak MB, packets per second and the ratios to the peers.

    ``repeats``: of ours, of the peers.
    """
    with tempfile.TemporaryDirectory(prefix="sojourn-bench-") as name:
        folder = Path(name)
        progress(f"making captures of {packets:,} and {scapy_packets:,} packets")
        traffic = made_traffic(Settings(requests=max(packets // PACKETS_OF_REQUEST, 1)))
        few = made_traffic(Settings(requests=max(scapy_packets // PACKETS_OF_REQUEST, 1)))
        large, small, one, log = (folder / file for file in ("large.pcap", "small.pcap", "one.pcap", "log.jsonl"))
        many, fewer = write_capture(traffic, large), write_capture(few, small)
        write_capture(made_traffic(Settings(requests=1)), one)
        write_log(traffic, log)
        jobs = commands(large, small, log)
        starts = {job: _instead(command, one, large, small) for job, command in jobs.items() if job != WITH_LOG}
        if WITH_LOG in jobs:
            measured(_instead(jobs[WITH_LOG], small, large))  # compiles what is compiled, once
        runs: dict[str, list[tuple[float, float]]] = {job: [] for job in jobs}
        idle: dict[str, list[float]] = {job: [] for job in starts}
        for turn in range(max(repeats)):
            for job, command in jobs.items():
                if turn < repeats[job in PEERS]:
                    progress(f"{turn + 1}/{repeats[job in PEERS]} {job}")
                    runs[job].append(measured(command))
                    if job in idle:
                        idle[job].append(measured(starts[job])[0])
        progress(f"joining {joined:,} requests to their log")
        join = join_cost(joined, folder)
    seconds = {job: statistics.median(s for s, _ in found) for job, found in runs.items()}
    start = {job: statistics.median(idle["sojourn pcap" if job == WITH_LOG else job]) for job in jobs}
    read = {job: fewer if job == "scapy" else many for job in jobs}
    rate = {job: read[job] / max(seconds[job] - start[job], 1e-3) for job in jobs}
    rows = [
        {
            "what": job,
            "packets": read[job],
            "seconds": round(seconds[job], 2),
            "from": round(min(s for s, _ in found), 2),
            "to": round(max(s for s, _ in found), 2),
            "start": round(start[job], 2),
            "peak_mb": round(max(mb for _, mb in found)),
            "packets_per_second": round(rate[job]),
            **{f"to_{peer}": round(rate[job] / rate[peer], 1) for peer in PEERS if peer in jobs},
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


def _instead(command: list[str], read: Path, *others: Path) -> list[str]:
    return [str(read) if part in map(str, others) else part for part in command]


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
    rows, join, repeats = found["rows"], found["join"], found["repeats"]
    assert isinstance(rows, list)  # noqa: S101
    assert isinstance(join, dict)  # noqa: S101
    assert isinstance(repeats, tuple)  # noqa: S101
    peers = [key for key in rows[0] if key.startswith("to_")]
    lines = [
        f"Packets of both sides of a proxy, medians of {repeats[0]} (of {repeats[1]} for the peers)\n",
        "| what | packets | s | from – to | start, s | peak MB | packets/s "
        + "".join(f"| × {peer[3:]} " for peer in peers)
        + "|",
        "| --- " * (7 + len(peers)) + "|",
    ]
    for row in rows:
        ratios = " | ".join(f"{row[peer]:,}" for peer in peers)
        lines.append(
            f"| {row['what']} | {row['packets']:,} | {row['seconds']} | {row['from']} – {row['to']} | {row['start']} "
            f"| {row['peak_mb']} | {row['packets_per_second']:,} | {ratios} |"
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
    parser.add_argument("--scapy-packets", type=int, default=100_000)
    parser.add_argument("--joined", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--peer-repeats", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("runs/bench"))
    options = parser.parse_args()
    found = result(
        options.packets,
        options.scapy_packets,
        options.joined,
        (options.repeats, options.peer_repeats),
        lambda text: print(f"bench: {text}", file=sys.stderr),  # noqa: T201
    )
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "wire.json").write_text(json.dumps(found, indent=2) + "\n")
    (options.out / "wire.md").write_text(as_markdown(found))
    print(as_markdown(found))  # noqa: T201


if __name__ == "__main__":
    main()
