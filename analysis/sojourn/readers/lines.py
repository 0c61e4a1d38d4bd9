"""Split bytes into blocks of whole lines, with bounded memory for any input."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sojourn.model.arrays import Bytes, Ints
from sojourn.model.formatting import counted
from sojourn.model.incomplete import read_in_part
from sojourn.readers.arrow import texts
from sojourn.readers.compression import DAMAGE
from sojourn.readers.inputs import LogInput

BLOCK_BYTES = 32 << 20
LINE_LIMIT = 1 << 20
DAMAGED = "damaged_compression"
NEWLINE = 10
Ends = NDArray[np.int32]
LineEnds = Callable[[Bytes], Ends]
STRETCH = 1 << 18
HIGH_BITS = np.uint64(0x8080808080808080)
LINES = 1 << 18  # lines of a block, about; shorter lines need less memory than their metadata


@dataclass
class Block:
    """Consecutive whole lines of one input.

    Attributes:
        data: the bytes of the lines, each with its line end.
        ends: bytes from the beginning of the block to the beginning of each line, and to the end of the last.
        open_end: the last line has no newline and may be truncated.
        refused: (line number, reason, first characters) of lines that are not in ``lines``.
        first: number of the first line of the block, refused or not.
        start: bytes of the input (decompressed) before the block.
        accepted: positions in the block of the lines that are not refused; None: all.
        input_ends: as ``ends``, in the input, where ``data`` is not what it holds; None: ``ends``.
    """

    data: Bytes
    ends: Ends
    open_end: bool = False
    refused: list[tuple[int, str, str]] = field(default_factory=list)
    first: int = 1
    start: int = 0
    accepted: Ints | None = None
    input_ends: Ends | None = None

    @property
    def count(self) -> int:
        """The number of lines in this block, refused or not."""
        return len(self) + len(self.refused)

    @property
    def last(self) -> int:
        """The number of the last line of the block, refused or not."""
        return self.first + len(self.ends) - 2

    @property
    def places(self) -> Ends:
        """Bytes of the input from the beginning of the block to the beginning of each line, and to its end."""
        return self.ends if self.input_ends is None else self.input_ends

    def __len__(self) -> int:
        """Return the number of lines that are not refused."""
        return len(self.ends) - 1 if self.accepted is None else len(self.accepted)

    @property
    def positions(self) -> Ints:
        """The positions in the block of the lines that are not refused."""
        return np.arange(len(self.ends) - 1) if self.accepted is None else self.accepted

    @property
    def numbers(self) -> Ints:
        """The 1-based numbers, in the input, of the lines that are not refused."""
        return self.first + self.positions

    @functools.cached_property
    def lines(self) -> pl.Series:
        """The lines that are not refused: valid UTF-8 (a run of other bytes is one U+FFFD), with their line ends."""
        return self.lines_at(self.positions)

    def lines_at(self, positions: Ints) -> pl.Series:
        """Return the lines at positions in the block, as in ``lines``."""
        data, ends = self.data, self.ends
        if len(positions) < len(ends) - 1:
            parts = [data[ends[at] : ends[at + 1]] for at in positions.tolist()]
            data = np.concatenate(parts) if parts else data[:0]
            ends = np.cumsum([0, *map(len, parts)], dtype=np.int32)
        if not is_utf8(data):
            # nginx passes bytes above 0x7F through as they came, so one client's 0xFF makes the block invalid UTF-8.
            return pl.Series(_decoded(data).split("\n")[:-1], dtype=pl.String)
        return texts(ends, data)

    def position(self, number: int) -> int:
        """Return the byte of the input (decompressed) at which the line of this number begins, counted from 0."""
        return self.start + int(self.places[number - self.first])

    def without_data(self) -> Block:
        """Return the block without the bytes of its lines: their numbers and positions need less memory."""
        return replace(self, data=self.data[:0].copy())

    def without_last(self) -> Block:
        """Return the block without its last line that is not refused."""
        return replace(self, accepted=self.positions[:-1])


def is_utf8(data: Bytes) -> bool:
    """Return whether bytes are UTF-8."""
    whole = len(data) // 8 * 8
    if not (data[:whole].view(np.uint64) & HIGH_BITS).any() and not (data[whole:] & 0x80).any():
        return True
    try:
        str(data.data, "utf-8")
    except UnicodeDecodeError:
        return False
    return True


def refusal(number: int, reason: str, raw: str, start: int) -> Block:
    """Return a block of one line that is refused."""
    return Block(
        np.empty(0, np.uint8), np.zeros(2, np.int32), refused=[(number, reason, raw)], first=number, start=start,
        accepted=np.empty(0, np.int64),
    )  # fmt: skip


def blocks_of_lines(
    log: LogInput, block_bytes: int = BLOCK_BYTES, line_limit: int = LINE_LIMIT, line_ends: LineEnds | None = None
) -> Iterator[Block]:
    """Yield the lines of a log, a block at a time.

    A line longer than ``line_limit`` bytes is refused (``line_too_long``) without being kept in memory. A damaged
    compressed stream yields the lines before the damage and one refusal (``damaged_compression``); so does a file that
    became shorter (``cut_while_read``). A damaged stream is reported to ``sojourn.model.incomplete``, unless the log
    that it is the archive of is read as well. ``line_ends``: a faster function for the position behind every line end.
    """
    line_ends = line_ends or _line_ends
    number = log.first_line
    start = log.start  # bytes before ``rest``
    rest = np.empty(0, np.uint8)
    skipping = False  # inside a line over the limit that was refused before
    for chunk, damage in _chunks(log, block_bytes, line_limit):
        if damage is not None:
            if len(rest):
                yield refusal(number, "incomplete_line", _text(rest), start)
                number += 1
            reason, words = damage
            if reason == DAMAGED and not log.beside_original:
                read_in_part(log.name, f"not readable from line {number:,} on ({words})")
            yield refusal(number, reason, words, start + len(rest))
            return
        data = chunk[line_limit - len(rest) :]
        data[: len(rest)] = rest
        ends = line_ends(data)
        if skipping:
            if not len(ends):
                start += len(data)
                continue
            cut = ends[0]
            start += int(cut)
            data, ends, skipping = data[cut:], ends[1:] - cut, False
        begin = 0
        # A part has little more than LINES lines.
        for part in np.array_split(ends, len(ends) // LINES + 1) if len(ends) else ():
            block = _block(data[begin : part[-1]], part - begin, number, start, line_limit)
            number += block.count
            start += int(part[-1]) - begin
            begin = int(part[-1])
            yield block
        rest = data[begin:].copy()
        if len(rest) > line_limit:
            yield refusal(number, "line_too_long", _text(rest), start)
            number += 1
            start += len(rest)
            rest, skipping = rest[:0], True
    if len(rest):
        last = np.append(rest, np.uint8(NEWLINE))
        block = _block(last, _line_ends(last), number, start, line_limit)
        block.open_end = True
        yield block


def _chunks(log: LogInput, size: int, room: int) -> Iterator[tuple[Bytes, tuple[str, str] | None]]:
    """Yield chunks of about ``size`` bytes, then possibly the error of the stream: a reason and a text.

    Each chunk has ``room`` free bytes before its own, for the rest of the previous one.
    """
    left = log.limit
    damage: tuple[str, str] | None = None
    over = False
    while not over and damage is None and left != 0:
        # numpy's memory: the kernel gives it in large pages, where new bytes would come in thousands of small ones.
        chunk = np.empty(room + (size if left is None else min(size, left)), np.uint8)
        end = room
        while end < len(chunk) and not over:
            try:
                read = log.stream.readinto1(chunk[end:]) or 0  # type: ignore[attr-defined]
            except DAMAGE as error:
                damage = (DAMAGED, str(error) or type(error).__name__)
                break
            end += read
            over = not read
        if left is not None:
            left -= end - room
            if over:
                damage = ("cut_while_read", f"the file was {counted(left, 'byte')} longer when it was opened")
            elif left == 0 and end > room and chunk[end - 1] != NEWLINE:
                # The last line was half written when the file was opened, and may be whole by now.
                line = np.frombuffer(log.stream.readline(LINE_LIMIT), np.uint8)
                chunk, end = np.concatenate([chunk[:end], line]), end + len(line)
        if end > room:
            yield chunk[:end], None
    if damage is not None:
        yield np.empty(0, np.uint8), damage


def _line_ends(data: Bytes) -> Ends:
    """Return the position behind every line end of some bytes."""
    # In parts that fit into the processor's cache.
    ends = [
        (np.flatnonzero(data[begin : begin + STRETCH] == NEWLINE) + (begin + 1)).astype(np.int32)
        for begin in range(0, len(data), STRETCH)
    ]
    return np.concatenate(ends)


def _block(data: Bytes, ends: Ends, first: int, start: int, line_limit: int) -> Block:
    """Return the lines of ``data``, which end before each of ``ends``."""
    offsets = np.concatenate([np.zeros(1, np.int32), ends])
    too_long = np.diff(offsets) > line_limit
    if not too_long.any():
        return Block(data, offsets, first=first, start=start)
    refused = [
        (first + at, "line_too_long", _text(data[offsets[at] : offsets[at + 1]]))
        for at in np.flatnonzero(too_long).tolist()
    ]
    return Block(data, offsets, refused=refused, first=first, start=start, accepted=np.flatnonzero(~too_long))


def _text(raw: Bytes) -> str:
    return _decoded(raw[:200])


def _decoded(data: Bytes) -> str:
    """Return bytes as text; each run of bytes that are not UTF-8 is one U+FFFD, as in a store."""
    return re.sub("\ufffd+", "\ufffd", data.tobytes().decode("utf-8", "replace"))
