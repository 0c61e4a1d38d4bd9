"""Bytes into blocks of whole lines, with a bound on the memory any input can take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sojourn.readers.arrow import arrow, texts
from sojourn.readers.compression import DAMAGE
from sojourn.readers.sources import LogInput

BLOCK_BYTES = 32 << 20
LINE_LIMIT = 1 << 20
NEWLINE = 10
STRETCH = 1 << 18
LINES = 1 << 20  # of a block, about: of lines this short, what is known of each takes more room than they do


@dataclass
class Block:
    """Consecutive whole lines of one input.

    Attributes:
        lines: Arrow string array, valid UTF-8 (what was not is replaced by U+FFFD), each with its line end.
        numbers: 1-based number of each line in its input.
        open_end: the last line had no newline: it may be cut off.
        refused: (line number, reason, first characters) of lines that are not in ``lines``.
        first: number of the first line of the block, refused or not.
        start: bytes of the input (decompressed) before the block.
        ends: bytes from the beginning of the block to the beginning of each line, and to the end of the last.
    """

    lines: pa.StringArray
    numbers: pa.Int64Array
    open_end: bool = False
    refused: list[tuple[int, str, str]] = field(default_factory=list)
    first: int = 1
    start: int = 0
    ends: NDArray[np.int32] = field(default_factory=lambda: np.zeros(2, np.int32))

    @property
    def count(self) -> int:
        """Lines of the input that this block stands for."""
        return len(self.lines) + len(self.refused)

    def position(self, number: int) -> int:
        """The byte of the input (decompressed) at which the line of this number begins, counted from 0."""
        return self.start + int(self.ends[number - self.first])


def _refusal(number: int, reason: str, raw: str, start: int) -> Block:
    refused = [(number, reason, raw)]
    return Block(pa.array([], pa.string()), pa.array([], pa.int64()), refused=refused, first=number, start=start)


def blocks_of_lines(log: LogInput, block_bytes: int = BLOCK_BYTES, line_limit: int = LINE_LIMIT) -> Iterator[Block]:
    """Yield the lines of a log, a block at a time.

    A line longer than ``line_limit`` bytes is refused (``line_too_long``) without being held in memory; a damaged
    compressed stream yields what came before the damage and then one refusal (``damaged_compression``), and so does a
    file that became shorter than it was (``cut_while_read``).
    """
    number = 1
    start = 0  # bytes before ``rest``
    rest = b""
    skipping = False  # inside a line over the limit, whose beginning has been refused already
    for chunk, damage in _chunks(log, block_bytes):
        if damage is not None:
            if rest:
                yield _refusal(number, "incomplete_line", _text(rest), start)
                number += 1
            reason, words = damage
            yield _refusal(number, reason, words, start + len(rest))
            return
        if skipping:
            end = chunk.find(b"\n")
            if end < 0:
                start += len(chunk)
                continue
            start += end + 1
            chunk, skipping = chunk[end + 1 :], False  # noqa: PLW2901
        data = rest + chunk if rest else chunk
        cut = data.rfind(b"\n") + 1
        rest = data[cut:]
        if cut:
            for part in _parts(data, cut):
                block = _block(part, number, start, line_limit)
                number += block.count
                start += len(part)
                yield block
        if len(rest) > line_limit:
            yield _refusal(number, "line_too_long", _text(rest), start)
            number += 1
            start += len(rest)
            rest, skipping = b"", True
    if rest:
        block = _block(memoryview(rest + b"\n"), number, start, line_limit)
        block.open_end = True
        yield block


def _chunks(log: LogInput, size: int) -> Iterator[tuple[bytes, tuple[str, str] | None]]:
    """Chunks of about ``size`` bytes, then perhaps ``b""`` and what broke the stream: a reason, and words."""
    left = log.limit
    parts: list[bytes] = []
    gathered = 0
    last = b"\n"
    damage: tuple[str, str] | None = None
    while left is None or left > 0:
        try:
            part = log.stream.read1(size if left is None else min(size, left))  # type: ignore[attr-defined]
        except DAMAGE as error:
            damage = ("damaged_compression", str(error))
            break
        if not part:
            if left:
                damage = ("cut_while_read", f"the file was {left:,} bytes longer when it was opened")
            break
        parts.append(part)
        last = part[-1:]
        gathered += len(part)
        left = None if left is None else left - len(part)
        if gathered >= size:
            yield b"".join(parts), None
            parts, gathered = [], 0
    if left == 0 and last != b"\n":
        # The last line was half written when the file was opened, and may be whole by now.
        parts.append(log.stream.readline(LINE_LIMIT))
    if parts:
        yield b"".join(parts), None
    if damage is not None:
        yield b"", damage


def _parts(data: bytes, end: int) -> Iterator[memoryview]:
    """The whole lines up to ``end``, in parts of not much more than ``LINES`` lines."""
    parts = _line_ends(data, end) // LINES + 1
    view, begin = memoryview(data), 0
    while begin < end:
        cut = end if parts == 1 else min(data.find(b"\n", min(begin + end // parts, end - 1)) + 1, end)
        yield view[begin:cut]
        begin = cut


def _line_ends(data: bytes, end: int) -> int:
    """How many there are before ``end``; many times as fast as ``bytes.count``, and other threads go on meanwhile."""
    bytes_ = np.frombuffer(data, np.uint8, end)
    return sum(int(np.count_nonzero(bytes_[i : i + STRETCH] == NEWLINE)) for i in range(0, end, STRETCH))


def _block(data: memoryview, first: int, start: int, line_limit: int) -> Block:
    bytes_ = np.frombuffer(data, dtype=np.uint8)
    # A stretch at a time, so that what is found by the way stays in the processor's cache.
    starts = range(0, len(bytes_), STRETCH)
    ends = np.concatenate([np.flatnonzero(bytes_[i : i + STRETCH] == NEWLINE) + i for i in starts])
    offsets = np.empty(len(ends) + 1, np.int32)
    offsets[0] = 0
    offsets[1:] = ends + 1
    lines = texts(offsets, data)
    try:
        lines.validate(full=True)
    except pa.ArrowInvalid:
        # nginx passes bytes above 0x7F through as they came, so one client's 0xFF makes the block invalid UTF-8.
        text = bytes(data).decode("utf-8", "replace")
        lines = pa.array(text.split("\n")[:-1], pa.string())
    numbers = np.arange(first, first + len(ends))
    too_long = np.diff(offsets) > line_limit
    if not too_long.any():
        return Block(lines, arrow(numbers), first=first, start=start, ends=offsets)
    refused = [(first + int(i), "line_too_long", lines[int(i)].as_py()[:200]) for i in np.flatnonzero(too_long)]
    kept = lines.filter(arrow(~too_long))
    return Block(kept, arrow(numbers[~too_long]), refused=refused, first=first, start=start, ends=offsets)


def _text(raw: bytes) -> str:
    return raw[:200].decode("utf-8", "replace")
