"""Write generated traffic (``traffic_generator``) as a packet capture at the proxy's machine, a stretch at a time.

    .venv/bin/python lab/benchmarks/capture_generator.py FOLDER [--requests 50000] [--kept 1]

writes wire.pcap and access.jsonl. Every kind of packet has one length, so that a stretch is filled in as columns:
a million packets take a few seconds.
"""

from __future__ import annotations

import argparse
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from sojourn.model.arrays import Ints

from benchmarks.traffic_generator import (
    BACKEND_PORT,
    CLIENTS,
    MICROSECOND,
    MILLISECOND,
    PROXY_PORT,
    SECOND,
    Settings,
    Traffic,
    generate_traffic,
    write_log,
)

FIN, SYN, PSH, ACK = 0x01, 0x02, 0x08, 0x10
STRETCH = 50_000  # packets in memory at a time
ETHERNET, TCP = 14, 34  # where the Ethernet header ends and where TCP's begins
BODY = b"x" * 200
GLOBAL_HEADER = struct.Struct("<IHHiIII")
NANOSECONDS = 0xA1B23C4D
SYN_OPTIONS = bytes.fromhex("020405b4 0402 080a 00000000 00000000 01 03 03 07")
OPTIONS = bytes.fromhex("0101 080a 00000000 00000000")

# Placeholders: # the request's path, ~ its id, @ the stamp, ^ the delay, % the service time, & the worker.
REQUEST = b"GET ################## HTTP/1.1\r\nHost: example.com\r\nUser-Agent: made/1.0\r\nAccept: */*\r\n\r\n"
BACKEND_REQUEST = (
    b"GET ################## HTTP/1.1\r\nHost: example.com\r\nX-Request-Start: t=@@@@@@@@@@.@@@\r\n"
    b"X-Request-ID: ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~\r\nConnection: close\r\n"
    b"User-Agent: made/1.0\r\nAccept: */*\r\n\r\n"
)
BACKEND_ANSWER = (
    b"HTTP/1.1 200 OK\r\nServer: made\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: 200\r\n"
    b"X-Queueing-Delay:^^^^^^^^^^\r\nX-Service-Time:%%%%%%%%%%\r\nX-Worker: &&&&\r\n\r\n"
) + BODY
ANSWER = (
    b"HTTP/1.1 200 OK\r\nServer: nginx\r\nContent-Type: text/plain\r\nContent-Length: 200\r\n"
    b"Connection: keep-alive\r\n\r\n"
) + BODY


@dataclass(frozen=True)
class Kind:
    """A kind of packet: the side of the proxy, the sender, flags, payload and position in the connection.

    Attributes:
        backend: whether the packet is on the backend's side of the proxy.
        by_client: whether the client of that connection sends it.
        flags: of TCP.
        payload: with placeholders.
        sent, received: sequence numbers that the sender had used and received before it, without whole exchanges
            (a SYN and a FIN count as one).
    """

    backend: bool
    by_client: bool
    flags: int
    payload: bytes
    sent: int
    received: int


def _leg(backend: bool, request: bytes, response: bytes) -> tuple[Kind, ...]:
    q, a = 1 + len(request), 1 + len(response)

    def client(flags: int, sent: int, received: int, payload: bytes = b"") -> Kind:
        return Kind(backend, True, flags, payload, sent, received)

    def server(flags: int, sent: int, received: int, payload: bytes = b"") -> Kind:
        return Kind(backend, False, flags, payload, sent, received)

    opening = (client(SYN, 0, 0), server(SYN | ACK, 0, 1), client(ACK, 1, 1))
    turn = (client(PSH | ACK, 1, 1, request), server(ACK, 1, q), server(PSH | ACK, 1, q, response), client(ACK, q, a))
    if backend:  # the server closes
        end = (server(FIN | ACK, a, q), client(FIN | ACK, q, a + 1), server(ACK, a + 1, q + 1))
    else:
        end = (client(FIN | ACK, q, a), server(FIN | ACK, a, q + 1), client(ACK, q + 1, a + 1))
    return opening + turn + end


KINDS = _leg(False, REQUEST, ANSWER) + _leg(True, BACKEND_REQUEST, BACKEND_ANSWER)
C_SYN, C_SYN_ACK, C_ACK, C_REQUEST, C_ACKED, C_ANSWER, C_ANSWER_ACK, C_FIN, C_FIN_ACK, C_LAST = range(10)
B_SYN, B_SYN_ACK, B_ACK, B_REQUEST, B_ACKED, B_ANSWER, B_ANSWER_ACK, B_FIN, B_FIN_ACK, B_LAST = range(10, 20)


@dataclass(frozen=True)
class Packets:
    """All packets in order of time: time (unix ns), kind, and the index of the request they belong to."""

    time: Ints
    kind: npt.NDArray[np.int8]
    request: npt.NDArray[np.int32]


def packets_of(traffic: Traffic) -> Packets:
    """Return the packets of all requests, in order of time."""
    us, every = MICROSECOND, np.arange(len(traffic))
    first, last, trip = np.flatnonzero(traffic.number == 0), np.flatnonzero(traffic.last), traffic.round_trip
    acked = traffic.answer + trip + np.where(traffic.repeated, 200 * MILLISECOND, 0)
    closed = acked + 100 * us
    parts: list[tuple[int, Ints, Ints]] = [
        (C_SYN, first, traffic.request - trip - 70 * us),
        (C_SYN_ACK, first, traffic.request - trip - 50 * us),
        (C_ACK, first, traffic.request - 50 * us),
        (C_REQUEST, every, traffic.request),
        (C_ACKED, every, traffic.request + 30 * us),
        (C_ANSWER, every, traffic.answer),
        (C_ANSWER, np.flatnonzero(traffic.repeated), traffic.answer + 200 * MILLISECOND),
        (C_ANSWER_ACK, every, acked),
        (C_FIN, last, closed),
        (C_FIN_ACK, last, closed + 30 * us),
        (C_LAST, last, closed + 30 * us + trip),
        (B_SYN, np.flatnonzero(traffic.syn_dropped), traffic.syn),
        (B_SYN, every, traffic.syn_again),
        (B_SYN_ACK, every, traffic.syn_again + 100 * us),
        (B_ACK, every, traffic.established),
        (B_REQUEST, every, traffic.established + 25 * us),
        (B_ACKED, every, traffic.established + 85 * us),
        (B_ANSWER, every, traffic.backend_answer),
        (B_ANSWER_ACK, every, traffic.backend_answer + 20 * us),
        (B_FIN, every, traffic.backend_answer + 40 * us),
        (B_FIN_ACK, every, traffic.backend_answer + 60 * us),
        (B_LAST, every, traffic.backend_answer + 160 * us),
    ]
    time = np.concatenate([at[of] for _, of, at in parts])
    kind = np.concatenate([np.full(len(of), number, np.int8) for number, of, _ in parts])
    request = np.concatenate([of.astype(np.int32) for _, of, _ in parts])
    order = np.argsort(time, kind="stable")
    return Packets(time[order], kind[order], request[order])


def write_capture(traffic: Traffic, path: Path, *, snaplen: int = 65_535) -> int:
    """Write a pcap file (ns, little-endian, Ethernet) of the traffic; return the number of its packets."""
    packets = packets_of(traffic)
    with path.open("wb") as file:
        file.write(GLOBAL_HEADER.pack(NANOSECONDS, 2, 4, 0, 0, snaplen, 1))
        for stretch in _stretches(traffic, packets, snaplen):
            file.write(stretch.tobytes())
    return len(packets.time)


def _stretches(traffic: Traffic, packets: Packets, snaplen: int) -> Iterator[npt.NDArray[np.uint8]]:
    templates = [_template(kind) for kind in KINDS]
    sizes = np.array([16 + min(len(template), snaplen) for template in templates])
    for begin in range(0, len(packets.time), STRETCH):
        part = slice(begin, begin + STRETCH)
        kinds, requests, times = packets.kind[part], packets.request[part], packets.time[part]
        offsets = np.cumsum(sizes[kinds]) - sizes[kinds]
        out = np.empty(int(sizes[kinds].sum()), np.uint8)
        for number, template in enumerate(templates):
            chosen = np.flatnonzero(kinds == number)
            if not len(chosen):
                continue
            of, at = requests[chosen], times[chosen]
            rows = np.tile(np.frombuffer(b"\0" * 16 + template, np.uint8), (len(of), 1))
            rows[:, :4], rows[:, 4:8] = _u32(at // SECOND, "<u4"), _u32(at % SECOND, "<u4")
            rows[:, 8:12] = _u32(np.full(len(of), sizes[number] - 16), "<u4")
            rows[:, 12:16] = _u32(np.full(len(of), len(template)), "<u4")
            _fill_headers(rows[:, 16:], traffic, KINDS[number], of, (begin + chosen) % 65_535 + 1)
            _fill_payload(rows[:, 16 + len(template) - len(KINDS[number].payload) :], traffic, KINDS[number], of)
            out[offsets[chosen][:, None] + np.arange(sizes[number])] = rows[:, : sizes[number]]
        yield out


def _template(kind: Kind) -> bytes:
    options = SYN_OPTIONS if kind.flags & SYN else OPTIONS
    segment = struct.pack(">HHIIBBHHH", 0, 0, 0, 0, (20 + len(options)) // 4 << 4, kind.flags, 502, 0, 0)
    segment += options + kind.payload
    ip = struct.pack(">BBHHHBBHII", 0x45, 0, 20 + len(segment), 0, 0x4000, 64, 6, 0, 0, 0)
    ends = bytes.fromhex("020000000001"), bytes.fromhex("020000000002")
    return (ends[1] + ends[0] if kind.by_client else ends[0] + ends[1]) + b"\x08\x00" + ip + segment


def _fill_headers(
    frames: npt.NDArray[np.uint8], traffic: Traffic, kind: Kind, of: npt.NDArray[np.int32], ip_id: Ints
) -> None:
    one, other = _ends(traffic, kind.backend, of)
    source, target = (one, other) if kind.by_client else (other, one)
    frames[:, 18:20] = _u16(ip_id)
    frames[:, 26:30], frames[:, 30:34] = _u32(source[0]), _u32(target[0])
    words = frames[:, ETHERNET:TCP].copy().view(">u2").sum(axis=1, dtype=np.int64)
    words = (words & 0xFFFF) + (words >> 16)
    frames[:, 24:26] = _u16(0xFFFF - ((words & 0xFFFF) + (words >> 16)))
    frames[:, 34:36], frames[:, 36:38] = _u16(source[1]), _u16(target[1])
    # Initial sequence numbers that look random, wrap at 2^32 now and then, and need no memory.
    owner = of.astype(np.int64) if kind.backend else traffic.connection[of]
    own_start = owner * 2_654_435_761 + 12_345 * kind.by_client
    peer_start = owner * 2_654_435_761 + 12_345 * (not kind.by_client)
    turns = np.zeros(len(of), np.int64) if kind.backend else traffic.number[of]
    request, response = _sizes(kind.backend)
    own_bytes, peer_bytes = (request, response) if kind.by_client else (response, request)
    frames[:, 38:42] = _u32(own_start + kind.sent + turns * own_bytes)
    if kind.flags & ACK:
        frames[:, 42:46] = _u32(peer_start + kind.received + turns * peer_bytes)


def _ends(traffic: Traffic, backend: bool, of: npt.NDArray[np.int32]) -> tuple[tuple[Ints, Ints], tuple[Ints, Ints]]:
    proxy = np.full(len(of), 0xC0000201)  # 192.0.2.1
    if backend:
        ports = np.full(len(of), BACKEND_PORT)
        return (proxy, traffic.backend_port[of]), (0x0A010001 + traffic.backend[of], ports)
    client = traffic.connection[of]
    ends = 0x0A090000 + client % CLIENTS, 2048 + client // CLIENTS % 60_000
    return ends, (proxy, np.full(len(of), PROXY_PORT))


def _sizes(backend: bool) -> tuple[int, int]:
    return (len(BACKEND_REQUEST), len(BACKEND_ANSWER)) if backend else (len(REQUEST), len(ANSWER))


def _fill_payload(payload: npt.NDArray[np.uint8], traffic: Traffic, kind: Kind, of: npt.NDArray[np.int32]) -> None:
    template = kind.payload

    def fill(mark: bytes, values: npt.NDArray[np.uint8]) -> None:
        at = template.index(mark)
        payload[:, at : at + values.shape[1]] = values

    if b"#" in template:
        at = template.index(b"#")
        payload[:, at : at + 18] = np.frombuffer(b"/r0/items/00000000", np.uint8)
        payload[:, at + 2] = of % 10 + 48
        payload[:, at + 10 : at + 18] = _digits(of.astype(np.int64), 8)
    if b"@" in template:
        stamp = _digits(traffic.stamp[of], 13)
        fill(b"@", stamp[:, :10])
        at = template.index(b"@") + 11
        payload[:, at : at + 3] = stamp[:, 10:]
    if b"~" in template:
        halves = np.stack([traffic.identity[of] >> 4, traffic.identity[of] & 15], axis=2).reshape(len(of), 32)
        fill(b"~", np.frombuffer(b"0123456789abcdef", np.uint8)[halves])
    if b"^" in template:
        fill(b"^", _seconds(traffic.app_start[of] - traffic.stamp[of] * MILLISECOND))
        fill(b"%", _seconds(traffic.app_end[of] - traffic.app_start[of]))
        fill(b"&", _digits(traffic.worker[of], 4))


def _digits(values: Ints, width: int) -> npt.NDArray[np.uint8]:
    return (values[:, None] // 10 ** np.arange(width - 1, -1, -1) % 10 + 48).astype(np.uint8)


def _seconds(values: Ints) -> npt.NDArray[np.uint8]:
    """Format ns as seconds with six decimals and a leading blank, 10 characters; below 100 s."""
    whole = _digits(values // 1000, 8)
    text = np.full((len(values), 10), 32, np.uint8)
    text[:, 1], text[:, 2] = np.where(whole[:, 0] == 48, 32, whole[:, 0]), whole[:, 1]
    text[:, 3] = 46
    text[:, 4:] = whole[:, 2:]
    return text


def _u32(values: Ints, kind: str = ">u4") -> npt.NDArray[np.uint8]:
    return (values & 0xFFFFFFFF).astype(kind).view(np.uint8).reshape(-1, 4)


def _u16(values: Ints) -> npt.NDArray[np.uint8]:
    return (values & 0xFFFF).astype(">u2").view(np.uint8).reshape(-1, 2)


def main() -> None:
    """Write the capture and the log."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--requests", type=int, default=50_000)
    parser.add_argument("--kept", type=int, default=1)
    options = parser.parse_args()
    traffic = generate_traffic(Settings(requests=options.requests, per_connection=options.kept))
    options.folder.mkdir(parents=True, exist_ok=True)
    print(f"{write_capture(traffic, options.folder / 'wire.pcap'):,} packets")  # noqa: T201
    write_log(traffic, options.folder / "access.jsonl")


if __name__ == "__main__":
    main()
