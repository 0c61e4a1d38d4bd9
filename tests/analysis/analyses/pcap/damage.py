"""Build a small capture in every container, and read damaged ones with the invariants checked."""

from __future__ import annotations

import gzip
import itertools
import struct
import sys
from pathlib import Path

from benchmarks.capture_generator import write_capture
from benchmarks.traffic_generator import Settings, generate_traffic
from sojourn.analyses.pcap.frames import CONNECTIONS, EXCHANGES
from sojourn.analyses.pcap.tracker import track
from sojourn.model.errors import SojournError
from sojourn.readers.capture.batch import Counts
from sojourn.readers.capture.reader import Capture

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

LENGTHS = (0, 1, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1)
_numbers = itertools.count()


def small_capture(folder: Path, requests: int = 2) -> bytes:
    """Return a pcap of that many requests through a proxy; the first SYN to the backend is dropped."""
    path = folder / "small.pcap"
    write_capture(generate_traffic(Settings(requests=requests, rate=50, dropped_syns=0.5, repeated=0.5, seed=4)), path)
    return path.read_bytes()


def packets_of(pcap: bytes) -> list[tuple[int, int, bytes]]:
    """Return the packets of a little-endian pcap of ns as (seconds, nanoseconds, bytes)."""
    result, at = [], 24
    while at < len(pcap):
        seconds, fraction, size, _ = struct.unpack_from("<IIII", pcap, at)
        result.append((seconds, fraction, pcap[at + 16 : at + 16 + size]))
        at += 16 + size
    return result


def as_pcapng(pcap: bytes, order: str = "<") -> bytes:
    """Return the same packets as pcapng: ns, Ethernet, a statistics block at the end."""

    def block(kind: int, body: bytes) -> bytes:
        body += b"\0" * (-len(body) % 4)
        return struct.pack(order + "II", kind, len(body) + 12) + body + struct.pack(order + "I", len(body) + 12)

    resolution = struct.pack(order + "HHB3xHH", 9, 1, 9, 0, 0)
    blocks = [
        block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1)),
        block(1, struct.pack(order + "HHI", 1, 0, 0) + resolution),
    ]
    for seconds, fraction, data in packets_of(pcap):
        time = seconds * 10**9 + fraction
        head = struct.pack(order + "IIIII", 0, time >> 32, time & 0xFFFFFFFF, len(data), len(data))
        blocks.append(block(6, head + data))
    drops = struct.pack(order + "HHQHH", 5, 8, 3, 0, 0)
    blocks.append(block(5, struct.pack(order + "III", 0, 0, 0) + drops))
    return b"".join(blocks)


def containers(pcap: bytes) -> dict[str, bytes]:
    """Return the capture in every container, by its name."""
    return {
        "pcap": pcap,
        "pcapng": as_pcapng(pcap),
        "pcapng, other order": as_pcapng(pcap, ">"),
        "pcap.gz": gzip.compress(pcap, mtime=0),
        "pcap.zst": zstd.compress(pcap),
    }


def read(data: bytes, folder: Path, batch_bytes: int = 1 << 16) -> Counts | str:
    """Read the capture: its counts, or the message of the error."""
    path = _written(data, folder)
    try:
        with Capture([path], batch_bytes=batch_bytes) as capture:
            segments = sum(len(batch) for batch in capture)
            return _sound(capture.counts, segments)
    except SojournError as error:
        return _sentence(error)


def tracked(data: bytes, folder: Path) -> Counts | str:
    """Read and track the capture, and check the tables: its counts, or the message of the error."""
    path = _written(data, folder)
    try:
        with Capture([path], batch_bytes=1 << 16) as capture:
            result = track(capture, capture.addresses)
            counts = _sound(capture.counts, capture.counts.segments)
    except SojournError as error:
        return _sentence(error)
    assert dict(result.connections.schema) == CONNECTIONS
    assert dict(result.exchanges.schema) == EXCHANGES
    assert result.connections["packets"].sum() + result.connections["copies"].sum() >= counts.segments
    assert set(result.exchanges["connection"]) <= set(result.connections["connection"])
    assert result.connections["exchanges"].sum() == result.exchanges.height
    assert all(count > 0 for count in result.unparsed.values())
    return counts


def _written(data: bytes, folder: Path) -> Path:
    path = folder / f"damaged{next(_numbers) % 4}.pcap"
    path.write_bytes(data)
    return path


def _sound(counts: Counts, segments: int) -> Counts:
    assert counts.segments == segments
    assert counts.packets == counts.segments + sum(counts.other.values()) + sum(counts.undecoded.values())
    assert 0 <= counts.cut <= counts.packets
    assert all("\n" not in why and why for why in counts.damaged.values())
    return counts


def _sentence(error: SojournError) -> str:
    text = str(error)
    assert text
    assert "\n" not in text
    assert len(text) < 500
    return text
