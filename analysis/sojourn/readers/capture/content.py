"""The bytes of an opened capture file, decompressed."""

from __future__ import annotations

import io
import os
import stat
import sys
from typing import cast

from sojourn.model.errors import SojournError
from sojourn.model.incomplete import read_in_part
from sojourn.readers.compression import DAMAGE, decompressed

# Bytes decompressed before the damage are returned, except those of the failing call.
_DECOMPRESSED_AT_ONCE = 64 << 10


class Content:
    """The content of a file (``-``: standard input); gzip and zstd are detected by their first bytes.

    Attributes:
        identity: (device, inode) of the file.
        regular: whether it can be closed and opened again.
        damage: reason that it could not be read to its end; None: no damage so far.
    """

    def __init__(self, name: str) -> None:
        """Open the file; a SojournError says why it cannot be opened."""
        try:
            if name == "-":
                self._raw = open(sys.stdin.fileno(), "rb", closefd=False)  # noqa: SIM115
            else:
                self._raw = open(name, "rb")  # noqa: SIM115 - closed by close()
        except OSError as error:
            raise SojournError(f"{name}: {error.strerror or error}") from error
        try:
            status = os.fstat(self._raw.fileno())
            self._compressed = decompressed(self._raw)
        except OSError as error:
            self._raw.close()
            raise SojournError(f"{name}: {error.strerror or error}") from error
        self.identity = status.st_dev, status.st_ino
        self.regular = name != "-" and stat.S_ISREG(status.st_mode)
        self.damage: str | None = None
        self._name = name

    def fill(self, room: memoryview) -> int:
        """Read until the room is full or the file ends; return the number of bytes."""
        filled = 0
        try:
            while filled < len(room) and self.damage is None:
                got = self._some(room[filled:])
                if not got:
                    break
                filled += got
        except DAMAGE as error:
            self.damage = f"cannot be read further: {str(error) or type(error).__name__}"
            read_in_part(self._name, self.damage)
        return filled

    def _some(self, room: memoryview) -> int:
        if self._compressed is None:
            return self._raw.readinto(room)
        read1 = cast(io.BufferedIOBase, self._compressed).read1
        octets = read1(min(len(room), _DECOMPRESSED_AT_ONCE))
        room[: len(octets)] = octets
        return len(octets)

    def close(self) -> None:
        """Close the file; standard input remains open."""
        if self._compressed is not None:
            self._compressed.close()
        self._raw.close()
