"""A file of JSON lines with a bounded size, written by a sampler."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec


class LinesFile:
    """A file of JSON lines, open until it is closed.

    Args:
        path: the file; truncated unless ``keep``.
        keep: what is in the file remains.
        max_bytes: beyond, the file becomes ``<name>.1``, in place of an older one, and a new one begins.

    Raises:
        OSError: it cannot be opened; ``write`` and ``rotated`` raise it, too, when something cannot be written.
    """

    def __init__(self, path: Path, *, keep: bool = False, max_bytes: int | None = None) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._out = path.open("ab" if keep else "wb")

    def write(self, record: Any) -> None:
        """Write one line."""
        self._out.write(msgspec.json.encode(record) + b"\n")

    def rotated(self) -> bool:
        """Flush to the disk; return whether a new file was begun."""
        self._out.flush()
        if self._max_bytes is None or self._out.tell() <= self._max_bytes:
            return False
        self._out.close()
        self._path.replace(self._path.with_name(f"{self._path.name}.1"))
        self._out = self._path.open("wb")
        return True

    def close(self) -> None:
        """Close it."""
        self._out.close()
