"""A log file that another program appends to: the lines that were written since an instant, across a rotation."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from sojourn_lab.errors import LabError


class GrowingLog:
    """A log from where it ends at this moment."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            status = path.stat()
        except OSError as error:
            raise LabError(f"{path}: cannot be read: {error.strerror}") from None
        self._file = (status.st_dev, status.st_ino)
        self._size = status.st_size

    def copy_new_lines(self, target: Path) -> int:
        """Write what was appended since then to a new file, without an incomplete last line; return its lines.

        A log that was renamed meanwhile is read to its end, and then the new one from its beginning.

        Raises:
            LabError: the log was truncated, or the renamed one is gone.
        """
        with target.open("wb") as out:
            try:
                for path, start in self._parts():
                    with path.open("rb") as log:
                        log.seek(start)
                        shutil.copyfileobj(log, out)
            except OSError as error:
                raise LabError(f"{error.filename or self.path}: cannot be read: {error.strerror}") from None
        return _cut_to_lines(target)

    def _parts(self) -> list[tuple[Path, int]]:
        """Return the files that hold the new lines, each with the offset of the first one."""
        status = self.path.stat()
        if (status.st_dev, status.st_ino) == self._file:
            if status.st_size < self._size:
                raise LabError(f"{self.path}: was truncated during the run (copytruncate): its lines are incomplete")
            return [(self.path, self._size)]
        renamed = [
            each
            for each in sorted(self.path.parent.glob(f"{self.path.name}*"))
            if (each.stat().st_dev, each.stat().st_ino) == self._file
        ]
        if not renamed:
            raise LabError(f"{self.path}: was rotated during the run, and no file beside it has the earlier lines")
        return [(renamed[0], self._size), (self.path, 0)]


def _cut_to_lines(path: Path) -> int:
    """Remove an incomplete last line from a file, and return the number of its lines."""
    lines = end = 0
    with path.open("r+b") as file:
        for line in file:
            if line.endswith(b"\n"):
                lines += 1
                end += len(line)
        file.seek(0, os.SEEK_SET)
        file.truncate(end)
    return lines
