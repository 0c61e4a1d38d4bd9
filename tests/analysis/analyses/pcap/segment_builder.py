"""Segments written by hand: a talk of one client with one server, and batches of such talks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from sojourn.analyses.pcap.tracker import track
from sojourn.analyses.pcap.tracking_result import TrackingResult
from sojourn.readers.capture.batch import ACK, FIN, PSH, RST, SYN, Batch

ADDRESSES = ["10.0.0.1", "10.0.0.2", "2001:db8::3"]
CLIENT, SERVER = 0, 1
MS = 1_000_000


@dataclass(frozen=True)
class Segment:
    """One row of a batch; ``time`` in ns, ``payload`` as captured, ``length`` as sent (None: all was captured)."""

    time: int
    source: int
    source_port: int
    target: int
    target_port: int
    seq: int
    ack: int
    flags: int
    payload: bytes = b""
    length: int | None = None
    window: int = 500
    ip_id: int = 0
    interface: int = 0


def batch_of(segments: Sequence[Segment], first: int = 1) -> Batch:
    """A batch of the segments, in their order; packets are numbered from ``first`` on."""
    lengths = np.array([len(one.payload) for one in segments], np.int32)

    def column(name: str, kind: type) -> np.ndarray:
        return np.array([getattr(one, name) for one in segments], kind)

    return Batch(
        number=np.arange(first, first + len(segments)),
        time=column("time", np.int64),
        source=column("source", np.int32),
        target=column("target", np.int32),
        source_port=column("source_port", np.uint16),
        target_port=column("target_port", np.uint16),
        seq=np.array([one.seq % 2**32 for one in segments], np.uint32),
        ack=np.array([one.ack % 2**32 for one in segments], np.uint32),
        flags=column("flags", np.uint16),
        window=column("window", np.uint16),
        ip_id=column("ip_id", np.uint16),
        interface=column("interface", np.int32),
        length=np.array([len(one.payload) if one.length is None else one.length for one in segments], np.int32),
        payload=(np.cumsum(lengths) - lengths).astype(np.int64),
        captured=lengths,
        buffer=np.frombuffer(b"".join(one.payload for one in segments), np.uint8),
    )


def tracked(segments: Iterable[Segment], *, servers: Sequence[int] = (), cuts: Sequence[int] = ()) -> TrackingResult:
    """What is made of the segments in the order of time, in one batch or cut into several at these positions."""
    rows = sorted(segments, key=lambda one: one.time)
    ends = [0, *sorted(cuts), len(rows)]
    batches = (batch_of(rows[a:b], a + 1) for a, b in pairwise(ends) if a < b)
    return track(batches, ADDRESSES, servers=servers)


@dataclass
class Talk:
    """A client and a server; sequence numbers and packet numbers go on by themselves, times are ms."""

    client_port: int = 40_000
    server_port: int = 80
    client_isn: int = 1_000
    server_isn: int = 9_000
    segments: list[Segment] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.next = {CLIENT: self.client_isn + 1, SERVER: self.server_isn + 1}
        self.ip_id = 0

    def send(
        self,
        ms: float,
        side: int,
        flags: int,
        payload: bytes = b"",
        *,
        seq: int | None = None,
        captured: int | None = None,
        window: int = 500,
        ip_id: int | None = None,
    ) -> Segment:
        """One segment; the other side's next number is acknowledged. A ``seq`` given is a repetition's."""
        self.ip_id += 1
        ports = (self.client_port, self.server_port)
        one = Segment(
            int(ms * MS),
            side,
            ports[side],
            1 - side,
            ports[1 - side],
            self.next[side] if seq is None else seq,
            self.next[1 - side] if flags & ACK else 0,
            flags,
            payload if captured is None else payload[:captured],
            len(payload),
            window,
            self.ip_id if ip_id is None else ip_id,
        )
        self.segments.append(one)
        if seq is None and not flags & SYN:
            self.next[side] += len(payload) + (1 if flags & FIN else 0)
        return one

    def syn(self, ms: float) -> Segment:
        return self.send(ms, CLIENT, SYN, seq=self.client_isn)

    def syn_ack(self, ms: float) -> Segment:
        return self.send(ms, SERVER, SYN | ACK, seq=self.server_isn, ip_id=0)

    def ack(self, ms: float, side: int = CLIENT) -> Segment:
        return self.send(ms, side, ACK)

    def opened(self) -> Talk:
        """The handshake at 0, 1 and 2 ms."""
        self.syn(0)
        self.syn_ack(1)
        self.ack(2)
        return self

    def ask(self, ms: float, payload: bytes, *, captured: int | None = None) -> Segment:
        return self.send(ms, CLIENT, ACK | PSH, payload, captured=captured)

    def answer(self, ms: float, payload: bytes, *, captured: int | None = None) -> Segment:
        return self.send(ms, SERVER, ACK | PSH, payload, captured=captured)

    def fin(self, ms: float, side: int, payload: bytes = b"") -> Segment:
        return self.send(ms, side, ACK | FIN, payload)

    def reset(self, ms: float, side: int) -> Segment:
        return self.send(ms, side, RST | ACK, window=0)

    def again(self, ms: float, segment: Segment, *, fresh: bool = True) -> Segment:
        """The segment once more: sent again with a packet number of its own, or the same packet captured again."""
        self.ip_id += 1
        ip_id = segment.ip_id if not fresh or segment.ip_id == 0 else self.ip_id
        one = Segment(**{**vars(segment), "time": int(ms * MS), "ip_id": ip_id})
        self.segments.append(one)
        return one


def request(path: str = "/", *fields: str, method: str = "GET", body: bytes = b"") -> bytes:
    """A request of HTTP/1.1."""
    lines = [f"{method} {path} HTTP/1.1", "Host: shop.example", *fields]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


def answer(status: int = 200, *fields: str, body: bytes = b"ok") -> bytes:
    """An answer of HTTP/1.1 with its length."""
    lines = [f"HTTP/1.1 {status} Fine", *fields, f"Content-Length: {len(body)}"]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body
