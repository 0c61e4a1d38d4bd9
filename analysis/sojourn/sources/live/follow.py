"""Follow logs: return the lines written since the last poll, across rotations of the file.

Logs are rotated in two ways. Renamed and recreated: nginx writes to the renamed file until it reopens its logs, so the
renamed file is read for a while in addition to the new one. Copied and truncated: the file is shorter than before, or
the bytes just before the position reached have changed; what was not read is read from the copy.
"""

from __future__ import annotations

import os
import select
import stat
import time
from abc import ABC, abstractmethod

from sojourn.model.errors import SojournError
from sojourn.readers.compression import DAMAGE
from sojourn.readers.inputs import LogInput, opened_inputs
from sojourn.sources.live.open_log import OpenLog, ended, whole_lines
from sojourn.sources.live.tail import Start

READ_BYTES = 8 << 20  # per poll
GRACE = 60.0  # s for which a renamed log is still read


class Follower(ABC):
    """A log that may grow.

    Attributes:
        name: as the user wrote it.
        missing: the file does not exist yet, or no longer.
        ended: no more lines will arrive (a closed pipe).
        rotations: number of times the file was replaced or truncated.
        refusal: why the file that has the name now cannot be opened, such as too many open files; empty: it is open.
        lost: bytes of files that were replaced, truncated or removed before they could be opened.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.missing = False
        self.ended = False
        self.rotations = 0
        self.refusal = ""
        self.lost = 0

    @property
    @abstractmethod
    def behind(self) -> int:
        """Bytes written and not read yet."""

    @abstractmethod
    def lines(self) -> bytes:
        """Return new whole lines, at most about ``READ_BYTES``; a line cut off by a rotation may lack its newline."""

    @abstractmethod
    def close(self) -> None:
        """Close the file."""


class FileFollower(Follower):
    """Follow a file by its name; the file need not exist yet, and one that exists is read from ``start`` on."""

    def __init__(self, name: str, start: Start) -> None:
        super().__init__(name)
        self._start: Start | None = start
        self._file: OpenLog | None = None
        self._earlier: list[OpenLog] = []  # renamed, or copied before they were truncated
        self._unopened: os.stat_result | None = None

    @property
    def behind(self) -> int:
        """Bytes written and not read yet."""
        return sum(file.behind for file in self._files)

    def open(self) -> tuple[int, int] | None:
        """Open the file if it exists, and return its device and inode.

        Raises:
            SojournError: the file exists and cannot be read.
        """
        self._reopen()
        return self._file.identity if self._file else None

    def lines(self) -> bytes:
        """See ``Follower``."""
        self._reopen()
        parts = []
        if self._file is not None and self._file.truncated():
            self.rotations += 1
            copy = self._file.restart(self.name)
            if copy is not None:
                self._earlier.append(copy)
            parts.append(ended(self._file.cut_off()))
        parts += [file.read(READ_BYTES) for file in self._earlier]
        parts.append(self._give_up_earlier())
        if self._file is not None:
            parts.append(self._file.read(READ_BYTES))
        return b"".join(parts)

    def close(self) -> None:
        """See ``Follower``."""
        for file in self._files:
            os.close(file.handle)
        self._file, self._earlier = None, []

    @property
    def _files(self) -> list[OpenLog]:
        return [*self._earlier, *([self._file] if self._file else [])]

    def _reopen(self) -> None:
        """Open the file that currently has the name, if it is a different file than before."""
        try:
            status = os.stat(self.name)
        except FileNotFoundError:
            self._count_lost(None)
            self.missing = True
            self._start = None if self._file is None else self._start
            return
        except OSError as error:
            raise SojournError(f"{self.name}: {error.strerror}") from error
        self._count_lost(status)
        self.missing = False
        if self._file is not None and self._file.identity == (status.st_dev, status.st_ino):
            return
        try:
            handle = os.open(self.name, os.O_RDONLY)
        except FileNotFoundError:
            return
        except OSError as error:
            if self._file is not None:  # permissions not set yet, or too many open files: the next poll may succeed
                self.refusal, self._unopened = error.strerror or str(error), status
                return
            raise SojournError(f"{self.name}: {error.strerror}") from error
        self.refusal, self._unopened = "", None
        if self._file is not None:
            self.rotations += 1
            self._file.deadline = time.monotonic() + GRACE
            self._earlier.append(self._file)
        # Only a file that existed at the start has older lines to skip.
        self._file = OpenLog(handle, self._start(handle) if self._start else 0)
        self._start = None

    def _count_lost(self, status: os.stat_result | None) -> None:
        """Count the bytes of a file that could not be opened and is gone; ``status``: of the file that has the name."""
        before = self._unopened
        if before is None:
            return
        is_same = status is not None and (status.st_dev, status.st_ino) == (before.st_dev, before.st_ino)
        if status is None or not is_same or status.st_size < before.st_size:
            self.lost += before.st_size
            self.rotations += 1
            self._unopened, self.refusal = None, ""

    def _give_up_earlier(self) -> bytes:
        """Close earlier files that have been read to their end; return the lines that they leave unfinished."""
        now = time.monotonic()
        over = [file for file in self._earlier if file.deadline < now and not file.behind]
        for file in over:
            os.close(file.handle)
            self._earlier.remove(file)
        return b"".join(ended(file.cut_off()) for file in over)


class StreamFollower(Follower):
    """Follow standard input, a named pipe or a device.

    Args:
        name: for display.
        handle: file descriptor to read; it is not closed.
        ends: whether end of file is final (not for a named pipe, which another writer may open again).
    """

    def __init__(self, name: str, handle: int, *, ends: bool = True) -> None:
        super().__init__(name)
        self._behind = 0
        self._handle = handle
        self._ends = ends
        self._begun = b""

    @property
    def behind(self) -> int:
        """Estimated bytes written and not read yet."""
        return self._behind

    def lines(self) -> bytes:
        """See ``Follower``."""
        parts = []
        size = 0
        while not self.ended and size < READ_BYTES and select.select([self._handle], [], [], 0)[0]:
            try:
                part = os.read(self._handle, 1 << 20)
            except BlockingIOError:
                break
            if not part:
                self.ended = self._ends
                break
            parts.append(part)
            size += len(part)
        self._behind = size if size >= READ_BYTES else 0
        whole, self._begun = whole_lines(self._begun, b"".join(parts))
        if self.ended:
            whole, self._begun = whole + self._begun, b""
        return whole

    def close(self) -> None:
        """See ``Follower``."""


class ArchiveFollower(Follower):
    """Read a compressed log as if it were piped in; it does not grow."""

    def __init__(self, log: LogInput) -> None:
        super().__init__(log.name)
        self._log = log
        self._begun = b""

    @property
    def behind(self) -> int:
        """Compressed bytes that remain to be read."""
        return 0 if self.ended or self._log.raw is None else (self._log.size or 0) - self._log.raw.tell()

    def lines(self) -> bytes:
        """See ``Follower``."""
        if self.ended:
            return b""
        try:
            data = self._log.stream.read(READ_BYTES)
        except DAMAGE:
            data = b""
        self.ended = not data
        whole, self._begun = whole_lines(self._begun, data)
        return whole + self._begun if self.ended else whole

    def close(self) -> None:
        """See ``Follower``."""
        self._log.close()


def follower_of(name: str, start: Start) -> Follower:
    """Return the follower of a source: a file, which need not exist yet, or a pipe.

    Raises:
        SojournError: the source exists and cannot be read, or cannot grow.
    """
    try:
        mode = os.stat(name).st_mode
        if not stat.S_ISREG(mode):
            handle = os.open(name, os.O_RDONLY | os.O_NONBLOCK)
            return StreamFollower(name, handle, ends=not reopens(name, mode))
    except FileNotFoundError:
        return FileFollower(name, start)
    except OSError as error:
        raise SojournError(f"{name}: {error.strerror}") from error
    inputs = opened_inputs([name])
    if inputs.parquet:
        raise SojournError(f"{name}: a Parquet file does not grow; use sojourn split")
    (log,) = inputs.logs
    if log.stream is not log.raw:
        return ArchiveFollower(log)
    log.close()
    return FileFollower(name, start)


def reopens(name: str, mode: int) -> bool:
    """Return whether it is a pipe that another writer may open again; a shell's <(zcat …) ends for good."""
    return stat.S_ISFIFO(mode) and not name.startswith(("/dev/fd/", "/dev/stdin", "/proc/self/fd/"))
