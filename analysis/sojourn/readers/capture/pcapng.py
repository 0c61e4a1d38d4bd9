"""The pcapng format: sections of blocks, each section in its own byte order (draft-ietf-opsawg-pcapng).

Packets are in enhanced blocks, in simple blocks (without a time, not used) and in the obsolete packet block. Other
blocks than these, interface descriptions and interface statistics are skipped.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn.model.arrays import Bools, Bytes, Ints
from sojourn.model.compilation import compiled
from sojourn.model.formatting import counted
from sojourn.readers.capture.records import LARGEST_BLOCK, LARGEST_RECORD, Records, Space, Walked, number
from sojourn.readers.capture.verdicts import BAD_BLOCK, BAD_TIME, NO_INTERFACE, NO_TIME, SEGMENT

_SECTION, _INTERFACE, _PACKET, _SIMPLE, _STATISTICS, _ENHANCED = 0x0A0D0D0A, 1, 2, 3, 5, 6
_NAME, _RESOLUTION, _OFFSET = 2, 9, 14  # options of an interface
_INTERFACE_DROPS, _SYSTEM_DROPS = 5, 7  # options of its statistics

# Reasons that a walk stopped.
_MORE, _FULL, _DESCRIPTION, _TOO_LARGE, _BAD_LENGTH = range(5)

_Order = Literal["big", "little"]
_SECTION_BYTES = b"\n\r\r\n"  # the same in either byte order
_BYTE_ORDERS: dict[bytes, _Order] = {b"\x1a\x2b\x3c\x4d": "big", b"\x4d\x3c\x2b\x1a": "little"}

_LONGEST_NAME = 256

_NS = 1_000_000_000
_LAST_SECOND = (1 << 63) // _NS - 1


class _Interface(NamedTuple):
    """An interface of a section: index of its name, link type, index of its clock."""

    position: int
    link_type: int
    clock: int


class _Clock(NamedTuple):
    """Ticks per second, 10 or 2 to the power of ``exponent``, and seconds to add."""

    binary: bool
    exponent: int
    offset: int


def is_pcapng(head: bytes) -> bool:
    """Return whether a file that begins with these bytes has this format."""
    return head[:4] == _SECTION_BYTES and head[8:12] in _BYTE_ORDERS


class PcapNg:
    """The records of one file; interfaces are identified by name, or by number without one."""

    def __init__(self, names: dict[str, int]) -> None:
        """Add the interfaces of this file to ``names``: the interfaces of all files with their numbers."""
        self._names = names
        self._clocks: dict[_Clock, int] = {}
        self._big = False
        self._described: list[_Interface] = []  # of all sections
        self._base = 0  # begin of those of the current section
        self._lost: dict[int, int] = {}

    @property
    def dropped(self) -> int | None:
        """Packets lost according to the statistics of the interfaces; None: no statistics."""
        return sum(self._lost.values()) if self._lost else None

    def walked(self, buffer: Bytes, begin: int, end: int, most: int) -> Walked:
        """Return the complete records between two positions of the buffer, at most ``most``."""
        space = Space(min(most, (end - begin) // 16 + 1))
        ticks = np.zeros(space.most, np.uint64)
        count, position, damage = 0, begin, None
        while True:
            count, position, state, needed = _walk(
                buffer, position, end, self._big, self._base, len(self._described), count,
                space.at, space.captured, space.sent, ticks, space.interface, space.verdict,
            )  # fmt: skip
            if state != _DESCRIPTION:
                break
            block = buffer[position:end]
            size, damage = self._read_description(block)
            if damage is not None or size > len(block):
                needed = size
                break
            position += size
        if state == _TOO_LARGE:
            damage = f"a block has an impossible length of {counted(needed, 'byte')}"
        elif state == _BAD_LENGTH:
            damage = "the two lengths of a block differ"
        records = self._records(space, count, ticks[:count])
        return Walked(records, position, state == _FULL and damage is None, needed, damage)

    def _read_description(self, rest: Bytes) -> tuple[int, str | None]:
        """Process the description block at the begin of ``rest``.

        Return its length, which may exceed ``rest``, and the reason that it cannot be read.
        """
        head = rest[:12].tobytes()
        section = head[:4] == _SECTION_BYTES
        order: _Order | None = _BYTE_ORDERS.get(head[8:12]) if section else "big" if self._big else "little"
        size = int.from_bytes(head[4:8], order or "little")
        damage = None
        if order is None:
            damage = "a section has no valid byte order"
        elif size > LARGEST_BLOCK or size < (28 if section else 20) or size % 4:
            damage = f"a block has an impossible length of {counted(size, 'byte')}"
        elif size <= len(rest):
            damage = self._take(rest[:size].tobytes(), order)
        return size, damage

    def _take(self, block: bytes, order: _Order) -> str | None:
        if block[-4:] != block[4:8]:
            return "the two lengths of a block differ"
        kind = int.from_bytes(block[:4], order)
        if kind == _SECTION:
            version = int.from_bytes(block[12:14], order)
            if version != 1:
                return f"version {version} of pcapng is not known"
            self._big, self._base = order == "big", len(self._described)
        elif kind == _INTERFACE:
            self._describe(block, order)
        else:
            self._count_lost(block, order)
        return None

    def _describe(self, body: bytes, order: _Order) -> None:
        options = _options(body[16:-4], order)
        number = len(self._described) - self._base
        name = options.get(_NAME, b"").rstrip(b"\0").decode(errors="replace")[:_LONGEST_NAME] or f"interface {number}"
        resolution = (options.get(_RESOLUTION) or b"\x06")[0]
        offset = int.from_bytes(options.get(_OFFSET, b""), order, signed=True)
        clock = _Clock(resolution >= 0x80, resolution & 0x7F, offset)
        self._described.append(
            _Interface(
                position=self._names.setdefault(name, len(self._names)),
                link_type=int.from_bytes(body[8:10], order),
                clock=self._clocks.setdefault(clock, len(self._clocks)),
            )
        )

    def _count_lost(self, body: bytes, order: _Order) -> None:
        """Keep the statistics of an interface; they are totals, so the last ones count."""
        options = _options(body[20:-4], order)
        lost = [int.from_bytes(options[code], order) for code in (_INTERFACE_DROPS, _SYSTEM_DROPS) if code in options]
        if lost:
            self._lost[self._base + int.from_bytes(body[8:12], order)] = sum(lost)

    def _records(self, space: Space, count: int, ticks: npt.NDArray[np.uint64]) -> Records:
        by = space.interface[:count]
        verdict = space.verdict[:count]
        time = np.zeros(count, np.int64)
        # -1: not described; the walk has set the verdict.
        described = np.array([*self._described, (0, 0, -1)], np.int64)
        position, link_type, clock = described[by].T
        for place, how in enumerate(self._clocks):
            its = clock == place
            if its.any():
                time[its], in_range = _unix_ns(ticks[its], how)
                verdict[its] = np.where((verdict[its] == SEGMENT) & ~in_range, BAD_TIME, verdict[its])
        position = position.astype(np.int32)
        return Records(space.at[:count], space.captured[:count], space.sent[:count], time, position, link_type, verdict)


def _unix_ns(ticks: npt.NDArray[np.uint64], how: _Clock) -> tuple[Ints, Bools]:
    """Return the unix time, ns, rounded down, and whether it is between 1970 and 2262."""
    k = how.exponent
    if how.binary:
        seconds = ticks >> np.uint64(k) if k < 64 else np.zeros_like(ticks)
        fraction = ticks & np.uint64((1 << min(k, 64)) - 1)
        # 34 bits of a second times 10⁹ are still less than 2⁶⁴.
        fraction = fraction >> np.uint64(min(k - 34, 63)) if k > 34 else fraction
        ns = (fraction * np.uint64(_NS)) >> np.uint64(min(k, 34))
    else:
        unit = 10**k
        seconds = ticks // np.uint64(unit) if k <= 19 else np.zeros_like(ticks)
        fraction = ticks % np.uint64(unit) if k <= 19 else ticks
        ns = fraction * np.uint64(10 ** (9 - k)) if k <= 9 else fraction // np.uint64(min(10 ** (k - 9), (1 << 64) - 1))
    offset = max(min(how.offset, 2 * _LAST_SECOND), -2 * _LAST_SECOND)
    whole = np.minimum(seconds, np.uint64(_LAST_SECOND + 1)).astype(np.int64) + offset
    in_range = (whole >= 0) & (whole <= _LAST_SECOND)
    return np.where(in_range, whole, 0) * _NS + ns.astype(np.int64), in_range


def _options(body: bytes, order: _Order) -> dict[int, bytes]:
    """Return options by code, up to the first wrong length; of several with one code, the first."""
    options: dict[int, bytes] = {}
    at = 0
    while at + 4 <= len(body):
        code, size = int.from_bytes(body[at : at + 2], order), int.from_bytes(body[at + 2 : at + 4], order)
        if code == 0 or at + 4 + size > len(body):
            break
        options.setdefault(code, body[at + 4 : at + 4 + size])
        at += 4 + (size + 3) // 4 * 4
    return options


@compiled
def _walk(  # type: ignore[no-untyped-def]
    buffer, position, end, big, base, described, count, at, captured, sent, ticks, interface, verdict,
):  # fmt: skip
    """Fill in the packets; return their number, the position and reason of the stop, and the block's length there."""
    while count < len(at):
        if position + 12 > end:
            return count, position, _MORE, 12
        kind = number(buffer, position, big)
        if kind in (_SECTION, _INTERFACE, _STATISTICS):
            return count, position, _DESCRIPTION, 12
        size = number(buffer, position + 4, big)
        packet = kind in (_ENHANCED, _PACKET)
        if size > LARGEST_BLOCK or size < (32 if packet else 16 if kind == _SIMPLE else 12) or size % 4 != 0:
            return count, position, _TOO_LARGE, size
        if position + size > end:
            return count, position, _MORE, size
        if number(buffer, position + size - 4, big) != size:
            return count, position, _BAD_LENGTH, size
        if packet:
            of = number(buffer, position + 8, big)
            if kind == _PACKET:  # two bytes of interface, two of a count of drops
                of = of >> 16 if big else of & 0xFFFF
            ticks[count] = np.uint64(number(buffer, position + 12, big)) << np.uint64(32) | np.uint64(
                number(buffer, position + 16, big)
            )
            at[count] = position + 28
            captured[count] = number(buffer, position + 20, big)
            sent[count] = max(captured[count], number(buffer, position + 24, big))
            verdict[count] = SEGMENT
            interface[count] = base + of
            if of >= described - base:
                verdict[count], interface[count] = NO_INTERFACE, -1
            elif captured[count] > size - 32 or captured[count] > LARGEST_RECORD:
                verdict[count] = BAD_BLOCK
            count += 1
        elif kind == _SIMPLE:
            at[count], captured[count], sent[count], ticks[count] = position + 12, 0, 0, 0
            verdict[count], interface[count] = NO_TIME, -1
            count += 1
        position += size
    return count, position, _FULL, 0
