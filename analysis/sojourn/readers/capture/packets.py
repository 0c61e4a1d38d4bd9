"""Packets on their way up the layers: each layer takes all packets at once, as arrays of positions."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

import numpy as np
import numpy.typing as npt

from sojourn.readers.capture.verdicts import Codes

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

PADDING = 64
"""Bytes behind the last of a buffer, so that a header can be taken before it is known to be there in full."""


@dataclass(frozen=True)
class Packets:
    """Packets still being decoded; every array has one entry per packet, ``buffer`` excepted.

    Attributes:
        buffer: bytes of the file, with ``PADDING`` behind them.
        index: of the packet among the records.
        at: where the next header begins in ``buffer``; never beyond ``kept``.
        kept: where the bytes that the capture kept end.
        sent: where the bytes that were sent would end; never before ``kept``.
        kind: what the next header is: an EtherType, later the number of an IP protocol.
        network: where the network header begins, once it is known.
    """

    buffer: Bytes
    index: Ints
    at: Ints
    kept: Ints
    sent: Ints
    kind: Ints
    network: Ints

    def __len__(self) -> int:
        return len(self.index)

    def where(self, chosen: Mask) -> Packets:
        """Those that are chosen."""
        if chosen.all():
            return self
        some = np.flatnonzero(chosen)
        return Packets(self.buffer, *(getattr(self, f.name)[some] for f in fields(self)[1:]))

    def moved(self, size: int | Ints, kind: Ints) -> Packets:
        """The same packets, ``size`` bytes further on, where the next header is of that kind."""
        return replace(self, at=self.at + size, kind=kind)

    def headers(self, layout: np.dtype[np.void]) -> np.ndarray[tuple[int], np.dtype[np.void]]:
        """What is at ``at``, read as ``layout``; nonsense where the header is not there in full."""
        return gathered(self.buffer, self.at, layout)


@dataclass
class Verdicts:
    """What became of each record, filled in by the layers.

    Attributes:
        codes: one per record.
        cut: how many TCP segments there are of which the capture kept a part only.
        tunnels: how many headers of tunnels were opened, by the name of the tunnel.
    """

    codes: Codes
    cut: int = 0
    tunnels: dict[str, int] = field(default_factory=dict)

    def enter(self, tunnel: str, packets: int) -> None:
        """Count packets that a tunnel carries."""
        if packets:
            self.tunnels[tunnel] = self.tunnels.get(tunnel, 0) + packets

    def without(self, packets: Packets, failed: Mask, code: int | npt.NDArray[np.integer]) -> Packets:
        """The packets that did not fail; the verdict on the others is ``code``, one for all or one per packet."""
        if not failed.any():
            return packets
        self.codes[packets.index[failed]] = code if isinstance(code, int) else code[failed]
        return packets.where(~failed)


def gathered(buffer: Bytes, at: Ints, layout: np.dtype[np.void]) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    """The bytes at each position, read as ``layout``.

    The bytes are taken as one opaque value and given their layout afterwards: several times faster than field by field.
    """
    size = layout.itemsize
    opaque = np.ndarray((max(len(buffer) - size + 1, 0),), dtype=f"V{size}", buffer=buffer.data, strides=(1,))
    return opaque[at].view(layout)


def joined(parts: list[Packets]) -> Packets:
    """All packets of the parts, which share one buffer."""
    if len(parts) == 1:
        return parts[0]
    return Packets(parts[0].buffer, *(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Packets)[1:]))
