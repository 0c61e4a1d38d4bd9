"""Records of a capture file: position, length and time of each packet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from sojourn.model.arrays import Bytes, Codes, Ints
from sojourn.model.compilation import compiled

LARGEST_RECORD = 256 << 10
"""Bytes of a packet above which its length counts as damage; the maximum of tcpdump and dumpcap."""

LARGEST_BLOCK = 16 << 20
"""Bytes of a pcapng block above which its length counts as damage."""

RECORDS_AT_ONCE = 1 << 15
"""Maximum number of records per batch, which bounds memory and keeps their columns in caches."""


@dataclass(frozen=True)
class Records:
    """Consecutive records; every array has one entry per record.

    Attributes:
        at: begin of the packet in the buffer.
        captured: bytes of it in the capture.
        sent: bytes of it as sent.
        time: unix time, ns.
        interface: see ``Batch.interface``.
        link_type: type of its first header.
        verdict: 0, or the reason that the record is not decoded.
    """

    at: Ints
    captured: Ints
    sent: Ints
    time: Ints
    interface: npt.NDArray[np.int32]
    link_type: Ints
    verdict: Codes


@dataclass(frozen=True)
class Walked:
    """The result of one walk over a part of the file.

    Attributes:
        records: complete ones.
        position: position in the buffer for the next walk.
        full: whether the part may have more records.
        needed: total bytes of the record at ``position``, as far as known.
        damage: reason that the rest of the file cannot be read; None: no damage.
    """

    records: Records
    position: int
    full: bool = False
    needed: int = 0
    damage: str | None = None


class Format(Protocol):
    """A file format of captures, with the state between two walks."""

    def walked(self, buffer: Bytes, begin: int, end: int, most: int) -> Walked:
        """Return the complete records between two positions of the buffer, at most ``most``."""
        ...

    @property
    def dropped(self) -> int | None:
        """Packets lost in capturing; None: unknown."""
        ...


class Space:
    """Records for a walk to fill in, at most ``most``."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.at, self.captured, self.sent, self.time = (np.empty(most, np.int64) for _ in range(4))
        self.interface, self.verdict = np.zeros(most, np.int32), np.zeros(most, np.int32)


@compiled
def number(buffer, at, big):  # type: ignore[no-untyped-def]
    """Return four bytes of the buffer as an unsigned number."""
    a, b, c, d = np.int64(buffer[at]), np.int64(buffer[at + 1]), np.int64(buffer[at + 2]), np.int64(buffer[at + 3])
    if big:
        return (a << 24) | (b << 16) | (c << 8) | d
    return (d << 24) | (c << 16) | (b << 8) | a
