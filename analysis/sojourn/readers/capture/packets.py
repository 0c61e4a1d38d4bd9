"""Packets during decoding: each layer processes all packets at once, as arrays of positions."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

import numpy as np
import numpy.typing as npt

from sojourn.model.arrays import Bools, Bytes, Codes, Ints

PADDING = 64
"""Bytes behind the end of a buffer, so that a header can be read before its length is checked."""


@dataclass(frozen=True)
class Packets:
    """Packets still being decoded; every array has one entry per packet, ``buffer`` excepted.

    Attributes:
        buffer: bytes of the file, with ``PADDING`` behind them.
        index: index of the packet among the records.
        at: begin of the next header in ``buffer``; never beyond ``captured``.
        captured: end of the captured bytes.
        sent: end of the bytes as sent; never before ``captured``.
        kind: kind of the next header: an EtherType, later the number of an IP protocol.
        network: begin of the network header, when known.
    """

    buffer: Bytes
    index: Ints
    at: Ints
    captured: Ints
    sent: Ints
    kind: Ints
    network: Ints

    def __len__(self) -> int:
        return len(self.index)

    def where(self, chosen: Bools) -> Packets:
        """Return the selected packets."""
        if chosen.all():
            return self
        some = np.flatnonzero(chosen)
        return Packets(self.buffer, *(getattr(self, f.name)[some] for f in fields(self)[1:]))

    def moved(self, size: int | Ints, kind: Ints) -> Packets:
        """Return the same packets, with ``at`` ``size`` bytes further on, behind headers of that kind."""
        return replace(self, at=self.at + size, kind=kind)

    def headers(self, layout: np.dtype[np.void]) -> np.ndarray[tuple[int], np.dtype[np.void]]:
        """Return the bytes at ``at`` as ``layout``; arbitrary values if the header is incomplete."""
        return gathered(self.buffer, self.at, layout)


@dataclass
class Verdicts:
    """What became of each record, filled in by the layers.

    Attributes:
        codes: one per record.
        cut: number of TCP segments captured in part.
        tunnels: number of opened tunnel headers, by name of the tunnel.
    """

    codes: Codes
    cut: int = 0
    tunnels: dict[str, int] = field(default_factory=dict)

    def enter(self, tunnel: str, packets: int) -> None:
        """Count packets carried by a tunnel."""
        if packets:
            self.tunnels[tunnel] = self.tunnels.get(tunnel, 0) + packets

    def without(self, packets: Packets, failed: Bools, code: int | npt.NDArray[np.integer]) -> Packets:
        """Return the packets that did not fail; the others get ``code``, one for all or one per packet."""
        if not failed.any():
            return packets
        self.codes[packets.index[failed]] = code if isinstance(code, int) else code[failed]
        return packets.where(~failed)


def gathered(buffer: Bytes, at: Ints, layout: np.dtype[np.void]) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    """Return the bytes at each position, read as ``layout``.

    The bytes are copied as one opaque value and viewed as ``layout``, several times faster than field by field.
    """
    size = layout.itemsize
    opaque = np.ndarray((max(len(buffer) - size + 1, 0),), dtype=f"V{size}", buffer=buffer.data, strides=(1,))
    return opaque[at].view(layout)


def joined(parts: list[Packets]) -> Packets:
    """Return all packets of the parts, which share one buffer."""
    if len(parts) == 1:
        return parts[0]
    return Packets(parts[0].buffer, *(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Packets)[1:]))
