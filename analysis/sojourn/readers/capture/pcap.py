"""The pcap format: a header of 24 bytes, then records (draft-ietf-opsawg-pcap).

Supported: both byte orders, microseconds and nanoseconds, and the variant of Alexey Kuznetzov's tcpdump, whose records
have eight more bytes with the index of their interface.
"""

from __future__ import annotations

import numpy as np

from sojourn.model.arrays import Bytes
from sojourn.model.compilation import compiled
from sojourn.model.formatting import counted
from sojourn.readers.capture.records import LARGEST_RECORD, Records, Space, Walked, number
from sojourn.readers.capture.verdicts import BAD_TIME

# By the first four bytes in big-endian order: ns per unit of the fraction, bytes of a record's header.
_MAGICS = {0xA1B2C3D4: (1000, 16), 0xA1B23C4D: (1, 16), 0xA1B2CD34: (1000, 24)}
_MAGICS_SWAPPED = {int.from_bytes(magic.to_bytes(4, "big"), "little"): how for magic, how in _MAGICS.items()}

HEADER_BYTES = 24


def is_pcap(head: bytes) -> bool:
    """Return whether a file that begins with these bytes has this format."""
    magic = int.from_bytes(head[:4], "big")
    return len(head) >= 4 and (magic in _MAGICS or magic in _MAGICS_SWAPPED)


class Pcap:
    """The records of one file."""

    dropped = None

    def __init__(self) -> None:
        self._link_type: int | None = None
        self._big = False
        self._scale, self._header = 1000, 16

    def walked(self, buffer: Bytes, begin: int, end: int, most: int) -> Walked:
        """Return the complete records between two positions of the buffer, at most ``most``; first, the header."""
        if self._link_type is None:
            if end - begin < HEADER_BYTES:
                return Walked(self._records(Space(0), 0), begin, needed=HEADER_BYTES)
            self._begin(buffer[begin : begin + HEADER_BYTES].tobytes())
            begin += HEADER_BYTES
        space = Space(min(most, (end - begin) // self._header + 1))
        count, position, needed = _walk(
            buffer, begin, end, self._big, self._header, self._scale,
            space.at, space.captured, space.sent, space.time, space.interface, space.verdict,
        )  # fmt: skip
        damage = None
        if needed > LARGEST_RECORD + self._header:
            damage, needed = f"a record claims {counted(needed - self._header, 'byte')}, more than a packet has", 0
        return Walked(self._records(space, count), position, count == space.most, needed, damage)

    def _begin(self, header: bytes) -> None:
        magic = int.from_bytes(header[:4], "big")
        self._big = magic in _MAGICS
        self._scale, self._header = (_MAGICS if self._big else _MAGICS_SWAPPED)[magic]
        # The upper bits are the length of the frame check sequence, which the lengths of IP headers exclude.
        self._link_type = int.from_bytes(header[20:24], "big" if self._big else "little") & 0xFFFF

    def _records(self, space: Space, count: int) -> Records:
        link_type = np.full(count, self._link_type or 0, np.int64)
        return Records(
            space.at[:count], space.captured[:count], space.sent[:count], space.time[:count], space.interface[:count],
            link_type, space.verdict[:count],
        )  # fmt: skip


@compiled
def _walk(buffer, begin, end, big, header, scale, at, captured, sent, time, interface, verdict):  # type: ignore[no-untyped-def]
    """Fill in the records; return their number, the begin of the next one, and its length."""
    position, count = begin, 0
    needed = header
    while count < len(at):
        needed = header
        if position + header > end:
            break
        size = number(buffer, position + 8, big)
        needed = header + size
        if size > LARGEST_RECORD or position + needed > end:
            break
        at[count] = position + header
        captured[count] = size
        sent[count] = max(size, number(buffer, position + 12, big))
        fraction = number(buffer, position + 4, big) * scale
        time[count] = number(buffer, position, big) * 1_000_000_000 + fraction
        if fraction >= 1_000_000_000:  # a damaged record, or nanoseconds in a file of microseconds
            verdict[count] = BAD_TIME
        if header == 24:
            interface[count] = number(buffer, position + 16, big) & 0x7FFFFFFF
        count += 1
        position += needed
        needed = header
    return count, position, needed
