"""What a capture's reader hands out, as rows that can be compared, and what scapy makes of the same packets."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import numpy as np
from captures import START, segment
from scapy.layers.inet import TCP
from sojourn.readers.capture.batch import Batch, Counts
from sojourn.readers.capture.reader import Capture

V4, V6 = ("10.0.0.1", "10.0.0.2"), ("2001:db8::1", "fe80::2:ff")
GREETING = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


def conversation(ends: tuple[str, str]) -> list:
    """SYN, SYN-ACK, ACK, a request, its answer in odd numbers, FIN, RST."""
    a, b = ends
    return [
        segment(a, b, 40000, 80, "S", seq=4294967290, window=64240, ip_id=7, options=[("MSS", 1460), ("WScale", 7)]),
        segment(b, a, 80, 40000, "SA", seq=1, ack=4294967291, window=65535, ip_id=0),
        segment(a, b, 40000, 80, "A", seq=4294967291, ack=2, window=502),
        segment(a, b, 40000, 80, "PA", GREETING, seq=4294967291, ack=2, window=502, ip_id=65535),
        segment(b, a, 80, 40000, "PA", bytes(range(256)) * 3, seq=2, ack=21, window=0),
        segment(a, b, 40000, 80, "FA", seq=21, ack=770),
        segment(b, a, 80, 40000, "RUE", seq=770, ip_id=9),
    ]


def written(folder: Path, content: bytes, name: str = "some.pcap") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def all_of(*sources: Path | str, batch_bytes: int = 32 << 20) -> tuple[list[tuple], Counts, Capture]:
    """Every segment as a tuple, addresses and payload as they are; and the sum rule, which always holds."""
    rows: list[tuple] = []
    with Capture(list(sources), batch_bytes=batch_bytes) as capture:
        for batch in capture:
            rows += rows_of(batch, capture.addresses)
    counts = capture.counts
    assert counts.packets == counts.segments + sum(counts.other.values()) + sum(counts.undecoded.values())
    assert counts.segments == len(rows)
    return rows, counts, capture


def rows_of(batch: Batch, addresses: list[str]) -> list[tuple]:
    names = [f.name for f in fields(batch) if f.name not in ("buffer", "source", "target", "payload")]
    columns = [getattr(batch, name).tolist() for name in names]
    assert {len(c) for c in columns} == {len(batch)}
    for name, kind in (("number", np.int64), ("source", np.int32), ("seq", np.uint32), ("captured", np.int32)):
        assert getattr(batch, name).dtype == kind, name
    payloads = [batch.buffer[p : p + k].tobytes() for p, k in zip(batch.payload, batch.captured, strict=True)]
    ends = [(addresses[s], addresses[t]) for s, t in zip(batch.source, batch.target, strict=True)]
    return [(*end, *row, payload) for end, row, payload in zip(ends, zip(*columns, strict=True), payloads, strict=True)]


def expected(packets: list, *, interface: int = 0, times: list[int] | None = None) -> list[tuple]:
    """The same rows, from what scapy makes of the crafted packets."""
    rows = []
    for i, crafted_packet in enumerate(packets):
        packet = crafted_packet.__class__(bytes(crafted_packet))
        tcp, payload = packet[TCP], bytes(packet[TCP].payload)
        time = times[i] if times else START + i * 1_000_000
        rows.append(
            (
                packet.src, packet.dst, i + 1, time, tcp.sport, tcp.dport, tcp.seq, tcp.ack, int(tcp.flags), tcp.window,
                packet.id if packet.version == 4 else 0, interface, len(payload), len(payload), payload,
            )
        )  # fmt: skip
    return rows
