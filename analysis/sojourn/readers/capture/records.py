"""Records of a capture file: where each packet lies, how long it was and when it came."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from sojourn.model.compilation import compiled
from sojourn.readers.capture.packets import Bytes, Ints
from sojourn.readers.capture.verdicts import Codes

LARGEST_RECORD = 256 << 10
"""Bytes of a packet beyond which its length is taken for damage; what tcpdump and dumpcap keep at most."""

LARGEST_BLOCK = 16 << 20
"""Bytes of a pcapng block beyond which its length is taken for damage."""

RECORDS_AT_ONCE = 1 << 15
"""At most this many records at a time, however short they are: memory is bounded, and their columns stay in caches."""


@dataclass(frozen=True)
class Records:
    """Some records in a row; every array has one entry per record.

    Attributes:
        at: where the packet begins in the buffer.
        kept: bytes of it that are there.
        sent: bytes it had.
        time: unix time, ns.
        interface: see ``Batch.interface``.
        link_type: how its first header is to be read.
        verdict: 0, or why no packet can be made of the record.
    """

    at: Ints
    kept: Ints
    sent: Ints
    time: Ints
    interface: npt.NDArray[np.int32]
    link_type: Ints
    verdict: Codes


@dataclass(frozen=True)
class Walked:
    """What one walk over a stretch of the file found.

    Attributes:
        records: complete ones.
        position: where in the buffer the next walk begins.
        full: there may be more in the stretch.
        needed: bytes that the record at ``position`` has in all, as far as that is known by now.
        damage: why the rest of the file cannot be read; None: it can.
    """

    records: Records
    position: int
    full: bool = False
    needed: int = 0
    damage: str | None = None


class Format(Protocol):
    """A file format of captures: keeps between two walks what the file has said about its packets."""

    def walked(self, buffer: Bytes, begin: int, end: int, most: int) -> Walked:
        """The records that lie in full between two positions of the buffer, ``most`` at once."""
        ...

    @property
    def dropped(self) -> int | None:
        """Packets the capturing side says it lost; None: it does not say."""
        ...


@dataclass
class Space:
    """Room for records that a walk fills in."""

    most: int
    at: Ints = field(init=False)
    kept: Ints = field(init=False)
    sent: Ints = field(init=False)
    time: Ints = field(init=False)
    interface: npt.NDArray[np.int32] = field(init=False)
    verdict: Codes = field(init=False)

    def __post_init__(self) -> None:
        self.at, self.kept, self.sent, self.time = (np.empty(self.most, np.int64) for _ in range(4))
        self.interface = np.zeros(self.most, np.int32)
        self.verdict = np.zeros(self.most, np.int32)


@compiled
def number(buffer, at, big):  # type: ignore[no-untyped-def]
    """Four bytes of the buffer as an unsigned number."""
    a, b, c, d = np.int64(buffer[at]), np.int64(buffer[at + 1]), np.int64(buffer[at + 2]), np.int64(buffer[at + 3])
    if big:
        return (a << 24) | (b << 16) | (c << 8) | d
    return (d << 24) | (c << 16) | (b << 8) | a
