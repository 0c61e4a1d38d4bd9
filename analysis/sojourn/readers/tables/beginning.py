"""The beginning of a table, and the stream of the rest."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from sojourn.model.errors import SojournError
from sojourn.readers.compression import DAMAGE

ROWS = 2_000  # that units and steps are read from
BYTES = 4 << 20
LINE_BYTES = 1 << 20
CHUNK = 1 << 20


@dataclass(frozen=True)
class Beginning:
    """The first lines of a table.

    Attributes:
        header: bytes of the line of names.
        rest: bytes of the lines after it.
        whole: these are all rows.
    """

    header: bytes
    rest: bytes
    whole: bool

    @property
    def line_of_names(self) -> str:
        """The line of names."""
        return self.header.decode("utf-8-sig", "replace").rstrip("\r\n")

    @property
    def lines(self) -> list[str]:
        """The lines after it."""
        return self.rest.decode("utf-8", "replace").splitlines()


def beginning_of(source: str, stream: BinaryIO) -> Beginning:
    """Read the line of names and the first rows.

    Raises:
        SojournError: the table is empty, or begins with bytes that are no text.
    """
    lines: list[bytes] = []
    size, whole = 0, False
    try:
        while len(lines) <= ROWS and size < BYTES and not whole:
            line = stream.readline(LINE_BYTES)
            whole = not line
            lines.append(line)
            size += len(line)
    except DAMAGE as error:  # the reader reports it; the lines before it count
        if not lines:
            raise SojournError(f"{source}: not readable ({error})") from error
    if not lines[0].strip():
        raise SojournError(f"{source}: the table has no line with the names of its columns")
    if b"\0" in lines[0]:
        raise SojournError(f"{source}: not the text of a table in UTF-8 (an archive has to be unpacked)")
    return Beginning(lines[0], b"".join(lines[1:]), whole)


def continued(head: bytes, stream: BinaryIO) -> Iterator[bytes]:
    """Yield bytes that were read already, and the rest of their stream."""
    yield head
    while chunk := stream.read1(CHUNK):  # type: ignore[attr-defined]
        yield chunk


class Chunks(io.BufferedIOBase):
    """A stream of chunks of bytes, each written when the one before it was read.

    Args:
        chunks: the chunks.
        source: closed with the stream.
    """

    def __init__(self, chunks: Iterator[bytes], source: BinaryIO | None = None) -> None:
        self._chunks, self._source = chunks, source
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto1(self, buffer: object) -> int:
        """Read bytes of one chunk into ``buffer``; return their number, 0 at the end."""
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = memoryview(chunk)
        into = memoryview(buffer).cast("B")  # type: ignore[arg-type] # typeshed's buffers are private
        count = min(len(into), len(self._rest))
        into[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count

    def close(self) -> None:
        """Close the source."""
        self._rest = memoryview(b"")
        if self._source is not None and not self.closed:
            self._source.close()
        super().close()
