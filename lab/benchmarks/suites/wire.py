"""What reading a capture costs beside tshark and scapy, and joining it to the log.

Every command is a process of its own on made traffic of both sides of a proxy (``made_capture``). Its start, what it
needs for a capture of one request, is taken off before packets per second are reckoned, for each alike. tshark reads
the same packets and prints the fields that the reader and the tracker find, its TCP analysis included; scapy takes each
packet apart as far as TCP, for fewer packets, as each costs it the same. The log join is timed without the reading of
the log: connections, exchanges and rows are there.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from benchmarks.growth import SOJOURN, grown
from benchmarks.made_capture import write_capture
from benchmarks.made_traffic import Settings as Traffic
from benchmarks.made_traffic import made_traffic, write_log
from benchmarks.measure import Cost, command_cost, in_turns, ratio_of
from benchmarks.rows import Found, Row, Settings, Slope

PACKETS, SCAPY_PACKETS, JOINED = 1_000_000, 100_000, 1_000_000
PACKETS_GROW = (500_000, 1_000_000, 4_000_000)
PACKETS_OF_REQUEST = 20
LEAST = 0.05  # s: less cannot be told from a start
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
from sojourn.analyses.wire.tracker import track
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
from sojourn.analyses.wire.timeline import timeline
from sojourn.analyses.wire.analysis import READ
settings, log = Settings(requests=int(sys.argv[1]), kept=3), Path(sys.argv[2])
traffic = made_traffic(settings)
write_log(traffic, log)
with_log, few = made_tracked(traffic), made_traffic(Settings(requests=500, kept=3))
log_of_few = log.with_name("few.jsonl")
write_log(few, log_of_few)
def joined(tracked, path):
    rows = sojourn.split([str(path)], columns=READ).rows.collect().lazy()
    begin = time.perf_counter()
    found = timeline(tracked, rows)
    return time.perf_counter() - begin, found
joined(made_tracked(few), log_of_few)
seconds, found = joined(with_log, log)
one = found.frame.filter(pl.col("joined_by") == "request_id").height
with open("/proc/self/status") as status:  # ru_maxrss would begin with the memory of who started this
    peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
print(json.dumps({"seconds": seconds, "rows": found.frame.height, "joined": one, "peak_mb": peak / 1024}))
"""


@dataclass(frozen=True)
class Files:
    """Captures and a log: of so many ``packets``, of ``fewer`` for scapy, and of one request."""

    large: Path
    small: Path
    one: Path
    log: Path
    packets: int
    fewer: int


def run(settings: Settings) -> Found:
    """Packets a second beside the peers', the join, and how the cost grows."""
    found = Found()
    files = made_files(settings)
    jobs = commands(files)
    for peer in PEERS:
        if peer not in jobs:
            found.skipped.append(f"{peer}: it is not installed")
    rates, costs = _rates(settings, files, jobs)
    for name in filter(jobs.__contains__, OURS):
        for peer in [peer for peer in PEERS if peer in jobs] or [""]:
            if peer != "scapy" or name == "sojourn pcap":
                found.rows.append(_row(name, peer, files, rates, costs))
    found.rows.append(_joined(settings))
    found.slopes.append(_slope(settings))
    if "tshark" in jobs:
        said = subprocess.run(["tshark", "--version"], capture_output=True, text=True, check=True)
        found.versions["tshark"] = said.stdout.split()[2].rstrip(".")
    if "scapy" in jobs:
        found.versions["scapy"] = version("scapy")
    return found


def made_files(settings: Settings) -> Files:
    """Made once, for all."""
    packets, fewer = settings.sized(PACKETS, 2_000), settings.sized(SCAPY_PACKETS, 1_000)
    settings.progress(f"making captures of {packets:,} and {fewer:,} packets")
    traffic = made_traffic(Traffic(requests=packets // PACKETS_OF_REQUEST))
    few = made_traffic(Traffic(requests=fewer // PACKETS_OF_REQUEST))
    large, small, one, log = (settings.folder / file for file in ("large.pcap", "small.pcap", "one.pcap", "log.jsonl"))
    many, less = write_capture(traffic, large), write_capture(few, small)
    write_capture(made_traffic(Traffic(requests=1)), one)
    write_log(traffic, log)
    return Files(large, small, one, log, many, less)


def commands(files: Files) -> dict[str, list[str]]:
    """Name -> command; peers only where they are installed."""
    python = sys.executable
    pcap = [*SOJOURN, "pcap", str(files.large), "--json", "--limit", "0"]
    found = {
        "reader": [python, "-c", READER, str(files.large)],
        "reader and tracker": [python, "-c", TRACKER, str(files.large)],
        "sojourn pcap": pcap,
        "sojourn pcap, with the log": [*pcap, "--log", str(files.log)],
    }
    if shutil.which("tshark"):
        fields = [part for name in FIELDS for part in ("-e", name)]
        found["tshark"] = ["tshark", "-n", "-r", str(files.large), "-T", "fields", *fields]
    if find_spec("scapy"):
        found["scapy"] = [python, "-c", SCAPY, str(files.small)]
    return found


def _rates(
    settings: Settings, files: Files, jobs: dict[str, list[str]]
) -> tuple[dict[str, list[float]], dict[str, list[Cost]]]:
    """Packets a second of every round, and what the commands cost."""

    for name in filter(jobs.__contains__, OURS[-1:]):  # compiles what is compiled, once
        command_cost([str(files.small) if part == str(files.large) else part for part in jobs[name]])
    all_jobs = {name: lambda command=command: command_cost(command) for name, command in jobs.items()}
    starts = {
        f"{name}, start": lambda command=command: command_cost(of_one(command, files)) for name, command in jobs.items()
    }
    costs = in_turns({**all_jobs, **starts}, settings.repeats, settings.progress)
    start = {name: statistics.median(cost.seconds for cost in costs[f"{name}, start"]) for name in jobs}
    packets = {name: files.fewer if name == "scapy" else files.packets for name in jobs}
    return {
        name: [packets[name] / max(cost.seconds - start[name], LEAST) for cost in costs[name]] for name in jobs
    }, costs


def of_one(command: list[str], files: Files) -> list[str]:
    """The same command for a capture of one request, without a log: what its start takes."""
    read = {str(files.large), str(files.small)}
    kept = command[: command.index("--log")] if "--log" in command else command
    return [str(files.one) if part in read else part for part in kept]


def _row(name: str, peer: str, files: Files, rates: dict[str, list[float]], costs: dict[str, list[Cost]]) -> Row:
    what = f"{name}, {files.packets:,} packets"
    ours, peak = statistics.median(rates[name]), max(cost.peak_mb for cost in costs[name])
    if not peer:
        return Row(what, "packets/s", ours, peak_mb=peak)
    ratio, low, high = ratio_of(rates[name], rates[peer])
    goal = TIMES_TSHARK if (name, peer) == ("sojourn pcap", "tshark") else None
    return Row(
        what, "packets/s", ours, peer, statistics.median(rates[peer]), ratio, low, high, times=True, goal=goal,
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
    """Seconds of the join of so many requests of both sides to their log, rows of the timeline, and how many joined."""
    command = [sys.executable, "-c", JOIN, str(requests), str(folder / "joined.jsonl")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"bench: the join ended with {done.returncode}: {done.stderr.strip().splitlines()[-1:]}")
    found: dict[str, float] = json.loads(done.stdout)
    return {"requests": requests, **found}


def _slope(settings: Settings) -> Slope:
    sizes = [settings.sized(size, size // 100) for size in PACKETS_GROW]

    def capture(packets: int) -> list[str]:
        path = settings.folder / f"{packets}.pcap"
        write_capture(made_traffic(Traffic(requests=packets // PACKETS_OF_REQUEST)), path)
        return [*SOJOURN, "pcap", str(path), "--json", "--limit", "0"]

    return grown("sojourn pcap", "packets", sizes, capture, capture(PACKETS_OF_REQUEST), settings)
