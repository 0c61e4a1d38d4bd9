"""Find the copy of a log that was truncated: what was not read of the log is in it.

logrotate's ``copytruncate`` copies FILE to FILE.1, FILE-DATE or, with ``extension .log``, NAME.1.log and NAME-DATE.log
beside it, and may compress the copy. The copy is recognised by its content: the bytes before the position reached.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile

from sojourn.readers.compression import DAMAGE, decompressed

MOST_COPIES = 8  # files that are compared: of several logs in one folder, each has one


def open_copy(log: str, position: int, before: bytes, since: float) -> int | None:
    """Return an open file with the content of a log before it was truncated; None: there is no copy.

    Args:
        log: its name.
        position: bytes of it that were read.
        before: the bytes just before this position.
        since: when the log was last modified before it was truncated, unix s; a copy is not older.
    """
    if not before:
        return None
    for path in _copies(log, since):
        with contextlib.suppress(*DAMAGE):
            handle = _opened(path)
            if os.pread(handle, len(before), position - len(before)) == before:
                return handle
            os.close(handle)
    return None


def _copies(log: str, since: float) -> list[str]:
    """Return the files beside a log that can be its copy, the latest first."""
    folder, base = os.path.split(os.path.abspath(log))
    stem = os.path.splitext(base)[0]
    times: dict[str, float] = {}
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name == base or not entry.name.startswith(stem):
                continue
            with contextlib.suppress(OSError):
                if entry.is_file() and (modified := entry.stat().st_mtime) >= since:
                    times[entry.path] = modified
    return sorted(times, key=lambda path: -times[path])[:MOST_COPIES]


def _opened(path: str) -> int:
    """Return an open file with the content of a file, decompressed if it is compressed.

    Raises:
        DAMAGE: it cannot be read, or is damaged; among others while it is being compressed.
    """
    with open(path, "rb") as raw:
        content = decompressed(raw)
        if content is None:
            return os.dup(raw.fileno())
        with tempfile.TemporaryFile() as plain:
            shutil.copyfileobj(content, plain)
            plain.flush()
            return os.dup(plain.fileno())
