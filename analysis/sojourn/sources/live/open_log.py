"""An open log: the position reached, the line begun, and what remains of it in its copy if it was truncated."""

from __future__ import annotations

import os

from sojourn.readers.lines import LINE_LIMIT
from sojourn.sources.live.truncated_copy import open_copy

REMEMBERED = 4096  # bytes before the position reached, to recognise the file: a whole record with its time


class OpenLog:
    """An open file, the position reached, and the beginning of a line that is not complete yet.

    Args:
        handle: file descriptor.
        position: at which reading begins, bytes.
        begun: beginning of a line that ends after ``position``.

    Attributes:
        handle: file descriptor.
        position: reached so far, bytes.
        deadline: until when a renamed file is read, s of the monotonic clock.
        identity: device and inode.
    """

    def __init__(self, handle: int, position: int, begun: bytes = b"") -> None:
        self.handle = handle
        self.position = position
        self._begun = begun
        self.deadline = 0.0
        status = os.fstat(handle)
        self.identity = (status.st_dev, status.st_ino)
        self._modified = status.st_mtime
        self._before = self._last_bytes()

    def truncated(self) -> bool:
        """Return whether the file was truncated since the last call."""
        status = os.fstat(self.handle)
        if status.st_size < self.position or self._last_bytes() != self._before:
            return True
        self._modified = status.st_mtime
        return False

    def restart(self, name: str) -> OpenLog | None:
        """Go back to the beginning of a truncated file; return its copy at the position reached; None: there is none.

        ``name``: of the file.
        """
        # A program that compresses gives its output the time of its input, some of them in whole seconds.
        handle = open_copy(name, self.position, self._before, int(self._modified))
        copy = None if handle is None else OpenLog(handle, self.position, self.cut_off())
        self.position, self._before = 0, b""
        return copy

    def read(self, limit: int) -> bytes:
        """Return new whole lines."""
        data = os.pread(self.handle, limit, self.position)
        self.position += len(data)
        # Not read again: the file may be truncated meanwhile.
        self._before = (self._before + data[-REMEMBERED:])[-REMEMBERED:]
        whole, self._begun = whole_lines(self._begun, data)
        return whole

    def cut_off(self) -> bytes:
        """Return the beginning of a line whose end will not be written here."""
        begun, self._begun = self._begun, b""
        return begun

    @property
    def behind(self) -> int:
        """Bytes written and not read yet."""
        return max(os.fstat(self.handle).st_size - self.position, 0)

    def _last_bytes(self) -> bytes:
        count = min(self.position, REMEMBERED)
        return os.pread(self.handle, count, self.position - count)


def ended(begun: bytes) -> bytes:
    """Return the beginning of a line as a line, to be counted as refused."""
    return begun + b"\n" if begun else b""


def whole_lines(begun: bytes, data: bytes) -> tuple[bytes, bytes]:
    """Return (whole lines, the rest); an unfinished line longer than ``LINE_LIMIT`` is passed on as it is."""
    cut = data.rfind(b"\n") + 1
    if cut:
        return begun + data[:cut], data[cut:]
    rest = begun + data
    return (rest + b"\n", b"") if len(rest) > LINE_LIMIT else (b"", rest)
