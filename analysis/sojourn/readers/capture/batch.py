"""TCP segments of a part of a capture, as columns."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sojourn.model.arrays import Ints

FIN, SYN, RST, PSH, ACK = 0x01, 0x02, 0x04, 0x08, 0x10
"""Bits of ``Batch.flags``, as in the TCP header (RFC 9293, section 3.1)."""


@dataclass(frozen=True)
class Batch:
    """TCP segments, in the order of time within a file; every array has one entry per segment, ``buffer`` excepted.

    Attributes:
        number: number of the packet in all files, from 1.
        time: unix time, ns.
        source, target: addresses, as positions in ``Capture.addresses``.
        source_port, target_port: ports.
        seq, ack, flags, window: of the TCP header; ``window`` as sent, not scaled.
        ip_id: identification of the IPv4 header; 0 for IPv6.
        interface: of the capture, or the index that a Linux cooked header names; 0 where there is one.
        length: bytes of payload as sent, also if the capture has fewer.
        payload: begin of the payload in ``buffer``.
        captured: bytes of the payload that are in ``buffer``.
        buffer: bytes of the file; it goes with the batch.
    """

    number: Ints
    time: Ints
    source: npt.NDArray[np.int32]
    target: npt.NDArray[np.int32]
    source_port: npt.NDArray[np.uint16]
    target_port: npt.NDArray[np.uint16]
    seq: npt.NDArray[np.uint32]
    ack: npt.NDArray[np.uint32]
    flags: npt.NDArray[np.uint16]
    window: npt.NDArray[np.uint16]
    ip_id: npt.NDArray[np.uint16]
    interface: npt.NDArray[np.int32]
    length: npt.NDArray[np.int32]
    payload: Ints
    captured: npt.NDArray[np.int32]
    buffer: npt.NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.number)


@dataclass
class Counts:
    """Counts of the packets of a capture: ``packets`` is the sum of ``segments``, ``other`` and ``undecoded``.

    Attributes:
        packets: records in the files.
        segments: TCP segments handed out.
        other: packets of another kind (UDP, ARP, …), by kind.
        tunnels: packets carried by tunnels, by tunnel; the inner packets count under the other figures.
        undecoded: packets that could not be decoded, by reason.
        cut: packets whose TCP header or payload was captured in part.
        damaged: file -> reason that its rest could not be read (a truncated record, an impossible length).
        dropped: packets lost in capturing (interface statistics of pcapng); None: unknown.
        overlapping: pairs of files, the second of which begins before the first ends.
    """

    packets: int = 0
    segments: int = 0
    other: dict[str, int] = field(default_factory=dict)
    tunnels: dict[str, int] = field(default_factory=dict)
    undecoded: dict[str, int] = field(default_factory=dict)
    cut: int = 0
    damaged: dict[str, str] = field(default_factory=dict)
    dropped: int | None = None
    overlapping: list[tuple[str, str]] = field(default_factory=list)
