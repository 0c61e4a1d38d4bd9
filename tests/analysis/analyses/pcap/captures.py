"""Captures made byte by byte: packets by scapy, files in every form that the formats allow."""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

SECOND = 1_000_000_000
START = 1_750_000_000 * SECOND
"""Unix time, ns, at which crafted captures begin."""

ETHERNET, NULL, LOOP, RAW, RAW_BSD, COOKED, RAW_IPV4, RAW_IPV6, COOKED_2 = 1, 0, 108, 101, 12, 113, 228, 229, 276
"""Link types."""


@dataclass(frozen=True)
class Frame:
    """A packet as a capture holds it: unix time in ns, its bytes, and how many it had on the wire (None: all)."""

    time: int
    data: bytes
    sent: int | None = None
    interface: int = 0

    @property
    def length(self) -> int:
        """Bytes on the wire."""
        return len(self.data) if self.sent is None else self.sent

    def cut(self, snaplen: int) -> Frame:
        """As a capture that keeps ``snaplen`` bytes has it."""
        return Frame(self.time, self.data[:snaplen], self.length, self.interface)


def segment(
    source: str = "10.0.0.1", target: str = "10.0.0.2", sport: int = 40000, dport: int = 80, flags: str = "A",
    payload: bytes = b"", *, seq: int = 0, ack: int = 0, window: int = 8192, ip_id: int = 1,
    options: Sequence[tuple[str, object]] = (),
) -> Packet:  # fmt: skip
    """A TCP segment over IPv4, or over IPv6 where the addresses have colons."""
    tcp = TCP(sport=sport, dport=dport, flags=flags, seq=seq, ack=ack, window=window, options=list(options))
    ip = IPv6(src=source, dst=target) if ":" in source else IP(src=source, dst=target, id=ip_id)
    return ip / tcp / Raw(payload) if payload else ip / tcp


def linked(packet: Packet | bytes, link_type: int = ETHERNET, *, tags: Sequence[tuple[int, int]] = (),
           interface: int = 3, family: int | None = None, big: bool = False) -> bytes:  # fmt: skip
    """The packet behind the header of a link layer.

    Args:
        packet: from its IP header on.
        link_type: the number a capture names it by.
        tags: of VLANs: EtherType and number, the outer one first.
        interface: index in a Linux cooked header of version 2.
        family: address family of a loopback header.
        big: whether that header is big-endian, where the type does not say.
    """
    data = bytes(packet)
    ethertype = 0x0800 if data[0] >> 4 == 4 else 0x86DD
    kinds = [*(kind for kind, _ in tags), ethertype]
    tagged = b"".join(struct.pack(">HH", number, kinds[i + 1]) for i, (_, number) in enumerate(tags)) + data
    if link_type == ETHERNET:
        return bytes(Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02", type=kinds[0])) + tagged
    if link_type == COOKED:
        return struct.pack(">HHH8sH", 0, 1, 6, b"\2\0\0\0\0\1", kinds[0]) + tagged
    if link_type == COOKED_2:
        return struct.pack(">HHIHBB8s", kinds[0], 0, interface, 1, 0, 6, b"\2\0\0\0\0\1") + tagged
    if link_type in (NULL, LOOP):
        word = family if family is not None else 2 if ethertype == 0x0800 else 30
        return struct.pack(">I" if big or link_type == LOOP else "<I", word) + data
    return data


def frames(packets: Iterable[Packet | bytes], link_type: int = ETHERNET, *, step: int = SECOND // 1000) -> list[Frame]:
    """The packets behind their link header, ``step`` ns after each other."""
    return [Frame(START + i * step, linked(packet, link_type)) for i, packet in enumerate(packets)]


def pcap(
    content: Iterable[Frame], *, link_type: int = ETHERNET, big: bool = False, nano: bool = False,
    modified: bool = False, snaplen: int = 262144,
) -> bytes:  # fmt: skip
    """A pcap file; ``modified``: with the longer records of Kuznetzov's tcpdump."""
    order = ">" if big else "<"
    magic = 0xA1B2CD34 if modified else 0xA1B23C4D if nano else 0xA1B2C3D4
    parts = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, snaplen, link_type)]
    for frame in content:
        second, fraction = divmod(frame.time, SECOND)
        fraction = fraction if nano else fraction // 1000
        parts.append(struct.pack(order + "IIII", second, fraction, len(frame.data), frame.length))
        if modified:
            parts.append(struct.pack(order + "IHBB", frame.interface, 0x0800, 0, 0))
        parts.append(frame.data)
    return b"".join(parts)


def block(kind: int, body: bytes, *, big: bool = False) -> bytes:
    """A block of pcapng."""
    padded = body + bytes(-len(body) % 4)
    order = ">" if big else "<"
    size = struct.pack(order + "I", len(padded) + 12)
    return struct.pack(order + "I", kind) + size + padded + size


def options(result: Iterable[tuple[int, bytes]], *, big: bool = False) -> bytes:
    """Options of a block, with the one that ends them."""
    order = ">" if big else "<"
    parts = [struct.pack(order + "HH", code, len(value)) + value + bytes(-len(value) % 4) for code, value in result]
    return b"".join(parts) + bytes(4) if parts else b""


def section(*, big: bool = False) -> bytes:
    """The block that begins a section of unknown length."""
    return block(0x0A0D0D0A, struct.pack((">" if big else "<") + "IHHq", 0x1A2B3C4D, 1, 0, -1), big=big)


def interface(link_type: int = ETHERNET, *, big: bool = False, resolution: int | None = None, offset: int | None = None,
              name: str = "") -> bytes:  # fmt: skip
    """The block that describes an interface; ``resolution``: the byte of if_tsresol."""
    order = ">" if big else "<"
    result: list[tuple[int, bytes]] = []
    if name:
        result.append((2, name.encode()))
    if resolution is not None:
        result.append((9, bytes([resolution])))
    if offset is not None:
        result.append((14, struct.pack(order + "q", offset)))
    return block(1, struct.pack(order + "HHI", link_type, 0, 262144) + options(result, big=big), big=big)


def ticks(time: int, resolution: int | None, offset: int | None) -> int:
    """Unix time in ns as a block counts it."""
    time -= (offset or 0) * SECOND
    if resolution is None:
        return time // 1000
    if resolution >= 0x80:
        return (time << (resolution & 0x7F)) // SECOND
    return time * 10**resolution // SECOND


def enhanced(frame: Frame, *, big: bool = False, resolution: int | None = None, offset: int | None = None,
             obsolete: bool = False) -> bytes:  # fmt: skip
    """The block of a packet; ``obsolete``: in the form that came before."""
    order = ">" if big else "<"
    count = ticks(frame.time, resolution, offset)
    lengths = struct.pack(order + "IIII", count >> 32, count & 0xFFFFFFFF, len(frame.data), frame.length)
    waiting = struct.pack(order + ("HH" if obsolete else "I"), frame.interface, *([0] if obsolete else []))
    return block(2 if obsolete else 6, waiting + lengths + frame.data, big=big)


def simple(frame: Frame, *, big: bool = False) -> bytes:
    """The block of a packet without its time."""
    return block(3, struct.pack((">" if big else "<") + "I", frame.length) + frame.data, big=big)


def statistics(number: int = 0, *, dropped: int | None = None, system: int | None = None, big: bool = False) -> bytes:
    """The block of an interface's statistics."""
    order = ">" if big else "<"
    matches = [(code, struct.pack(order + "Q", n)) for code, n in ((5, dropped), (7, system)) if n is not None]
    return block(5, struct.pack(order + "III", number, 0, 0) + options(matches, big=big), big=big)


def pcapng(
    content: Iterable[Frame], *, link_type: int = ETHERNET, big: bool = False, resolution: int | None = None,
    offset: int | None = None, obsolete: bool = False, name: str = "",
) -> bytes:  # fmt: skip
    """A pcapng file of one section with one interface."""
    begin = section(big=big) + interface(link_type, big=big, resolution=resolution, offset=offset, name=name)
    how = {"big": big, "resolution": resolution, "offset": offset, "obsolete": obsolete}
    return begin + b"".join(enhanced(frame, **how) for frame in content)


def zstandard(data: bytes) -> bytes:
    """The data as one zstd frame."""
    return zstd.compress(data)
