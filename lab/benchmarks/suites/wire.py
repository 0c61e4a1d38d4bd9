"""The cost of reading a capture, against tshark and scapy, and of joining it to the log.

Every command is a process of its own on generated traffic of both sides of a proxy (``capture_generator``). Its start,
the time for a capture of one request (and its log), is subtracted before packets per second are computed, for all
alike. tshark reads the same packets and prints the fields that the reader and the tracker produce, its TCP analysis
included; scapy parses each packet as far as TCP, for fewer packets, as its cost per packet is constant. The log join is
timed without reading the log: connections, exchanges and rows are in memory.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from benchmarks.capture_generator import write_capture
from benchmarks.growth import SOJOURN, grown
from benchmarks.measure import Cost, command_cost, in_turns
from benchmarks.rows import Measurements, Row, Settings, Slope, compared_row
from benchmarks.traffic_generator import Settings as Traffic
from benchmarks.traffic_generator import generate_traffic, write_log

PACKETS, SCAPY_PACKETS, JOINED = 1_000_000, 100_000, 1_000_000
PACKETS_GROW = (500_000, 1_000_000, 4_000_000)
PACKETS_OF_REQUEST = 20
LEAST = 0.05  # s: a shorter time is lost in that of a start
TIMES_TSHARK = 20.0
OURS = ("reader", "reader and tracker", "sojourn pcap", "sojourn pcap, with the log")
PEERS = ("tshark", "scapy")
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
from sojourn.analyses.pcap.tracker import track
from sojourn.readers.capture.reader import Capture
with Capture(sys.argv[1:]) as capture:
    print(track(capture, capture.addresses).exchanges.height)
"""
SCAPY = """
import sys
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.utils import PcapReader
count = 0
with PcapReader(sys.argv[1]) as capture:
    for packet in capture:
        ip, tcp = packet[IP], packet[TCP]
        fields = packet.time, ip.src, ip.dst, tcp.sport, tcp.dport, tcp.seq, tcp.ack, tcp.flags, tcp.window
        count += len(fields) > 0
    print(count)
"""
JOIN = """
import json, sys, time
import polars as pl, sojourn
from benchmarks.expected_frames import expected_tracked
from benchmarks.traffic_generator import Settings, generate_traffic, write_log
from pathlib import Path
from sojourn.analyses.pcap.timeline import timeline
from sojourn.analyses.pcap.log_join import READ
settings, log = Settings(requests=int(sys.argv[1]), per_connection=3), Path(sys.argv[2])
traffic = generate_traffic(settings)
write_log(traffic, log)
with_log, few = expected_tracked(traffic), generate_traffic(Settings(requests=500, per_connection=3))
log_of_few = log.with_name("few.jsonl")
write_log(few, log_of_few)
def joined(tracked, path):
    rows = sojourn.split([str(path)], columns=READ).rows.collect().lazy()
    begin = time.perf_counter()
    joined_requests = timeline(tracked, rows)
    return time.perf_counter() - begin, joined_requests
joined(expected_tracked(few), log_of_few)
seconds, result = joined(with_log, log)
one = result.frame.filter(pl.col("joined_by") == "request_id").height
with open("/proc/self/status") as status:  # ru_maxrss would begin with the memory of the parent
    peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
print(json.dumps({"seconds": seconds, "rows": result.frame.height, "joined": one, "peak_mb": peak / 1024}))
"""


@dataclass(frozen=True)
class Files:
    """Captures of ``packets`` packets, of ``fewer`` for scapy, and of one request; the logs of first and last."""

    large: Path
    small: Path
    one: Path
    log: Path
    log_of_one: Path
    packets: int
    fewer: int


def run(settings: Settings) -> Measurements:
    """Measure packets a second against the peers, the join, and how the cost grows."""
    measurements = Measurements()
    files = write_files(settings)
    jobs = commands(files)
    for peer in PEERS:
        if peer not in jobs:
            measurements.skipped.append(f"{peer}: it is not installed")
    rates, costs = _rates(settings, files, jobs)
    for name in filter(jobs.__contains__, OURS):
        for peer in [peer for peer in PEERS if peer in jobs] or [""]:
            if peer != "scapy" or name == "sojourn pcap":
                measurements.rows.append(_row(name, peer, files, rates, costs))
    measurements.rows.append(_joined(settings))
    measurements.slopes.append(_slope(settings))
    if "tshark" in jobs:
        output = subprocess.run(["tshark", "--version"], capture_output=True, text=True, check=True)
        measurements.versions["tshark"] = output.stdout.split()[2].rstrip(".")
    if "scapy" in jobs:
        measurements.versions["scapy"] = version("scapy")
    return measurements


def write_files(settings: Settings) -> Files:
    """Write the captures and the log that all jobs read."""
    packets, fewer = settings.sized(PACKETS, 2_000), settings.sized(SCAPY_PACKETS, 1_000)
    settings.progress(f"making captures of {packets:,} and {fewer:,} packets")
    traffic = generate_traffic(Traffic(requests=packets // PACKETS_OF_REQUEST))
    few = generate_traffic(Traffic(requests=fewer // PACKETS_OF_REQUEST))
    names = ("large.pcap", "small.pcap", "one.pcap", "log.jsonl", "log-of-one.jsonl")
    large, small, one, log, log_of_one = (settings.folder / name for name in names)
    many, less = write_capture(traffic, large), write_capture(few, small)
    single = generate_traffic(Traffic(requests=1))
    write_capture(single, one)
    write_log(traffic, log)
    write_log(single, log_of_one)
    return Files(large, small, one, log, log_of_one, many, less)


def commands(files: Files) -> dict[str, list[str]]:
    """Return name -> command, with the peers that are installed."""
    python = sys.executable
    pcap = [*SOJOURN, "pcap", str(files.large), "--json", "--limit", "0"]
    commands = {
        "reader": [python, "-c", READER, str(files.large)],
        "reader and tracker": [python, "-c", TRACKER, str(files.large)],
        "sojourn pcap": pcap,
        "sojourn pcap, with the log": [*pcap, "--log", str(files.log)],
    }
    if shutil.which("tshark"):
        fields = [part for name in FIELDS for part in ("-e", name)]
        commands["tshark"] = ["tshark", "-n", "-r", str(files.large), "-T", "fields", *fields]
    if find_spec("scapy"):
        commands["scapy"] = [python, "-c", SCAPY, str(files.small)]
    return commands


def _rates(
    settings: Settings, files: Files, jobs: dict[str, list[str]]
) -> tuple[dict[str, list[float]], dict[str, list[Cost]]]:
    """Return packets a second of every round, and the costs of the commands."""
    for name in filter(jobs.__contains__, OURS[-1:]):  # fills the cache of compiled code
        command_cost([str(files.small) if part == str(files.large) else part for part in jobs[name]])
    all_jobs = {name: partial(command_cost, command) for name, command in jobs.items()}
    starts = {f"{name}, start": partial(command_cost, of_one(command, files)) for name, command in jobs.items()}
    costs = in_turns({**all_jobs, **starts}, settings.repeats, settings.progress)
    start = {name: statistics.median(cost.seconds for cost in costs[f"{name}, start"]) for name in jobs}
    packets = {name: files.fewer if name == "scapy" else files.packets for name in jobs}
    return {
        name: [packets[name] / max(cost.seconds - start[name], LEAST) for cost in costs[name]] for name in jobs
    }, costs


def of_one(command: list[str], files: Files) -> list[str]:
    """Return the same command for a capture of one request, and its log: it measures the start."""
    replaced = {
        str(files.large): str(files.one),
        str(files.small): str(files.one),
        str(files.log): str(files.log_of_one),
    }
    return [replaced.get(part, part) for part in command]


def _row(name: str, peer: str, files: Files, rates: dict[str, list[float]], costs: dict[str, list[Cost]]) -> Row:
    what = f"{name}, {files.packets:,} packets"
    ours, peak = statistics.median(rates[name]), max(cost.peak_mb for cost in costs[name])
    if not peer:
        return Row(what, "packets/s", ours, peak_mb=peak)
    goal = TIMES_TSHARK if name.startswith("sojourn pcap") and peer == "tshark" else None
    return compared_row(
        what, "packets/s", rates[name], peer, rates[peer], times=True, goal=goal,
        peak_mb=peak, peer_mb=max(cost.peak_mb for cost in costs[peer]),
        note="both without their start-up" if goal else "",
    )  # fmt: skip


def _joined(settings: Settings) -> Row:
    requests = settings.sized(JOINED, 1_000)
    settings.progress(f"joining {requests:,} requests to their log")
    join = join_cost(requests, settings.folder)
    return Row(
        f"joining {requests:,} requests of both sides to their log", "s", join["seconds"], peak_mb=join["peak_mb"],
        note=f"{join['joined']:,.0f} by their request id; frames and rows are there before the clock starts, and count "
        "in the memory",
    )  # fmt: skip


def join_cost(requests: int, folder: Path) -> dict[str, float]:
    """Return the seconds of joining ``requests`` requests of both sides to their log, the rows, and how many joined."""
    command = [sys.executable, "-c", JOIN, str(requests), str(folder / "joined.jsonl")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"bench: the join ended with {done.returncode}: {done.stderr.strip().splitlines()[-1:]}")
    result: dict[str, float] = json.loads(done.stdout)
    return {"requests": requests, **result}


def _slope(settings: Settings) -> Slope:
    sizes = [settings.sized(size, size // 100) for size in PACKETS_GROW]

    def capture(packets: int) -> list[str]:
        path = settings.folder / f"{packets}.pcap"
        write_capture(generate_traffic(Traffic(requests=packets // PACKETS_OF_REQUEST)), path)
        return [*SOJOURN, "pcap", str(path), "--json", "--limit", "0"]

    return grown("sojourn pcap", "packets", sizes, capture, capture(PACKETS_OF_REQUEST), settings)
