"""A text stream that several processes can append whole lines to.

Python's own file objects cut what exceeds their buffer into several writes, and the lines of two processes
would mingle. Here one text is one write to a file opened for appending, which Linux keeps whole.
"""

from __future__ import annotations

import logging
import os

_logger = logging.getLogger("sojourn_middleware")


class AppendingStream:
    """Just enough of a text stream for an exporter to write lines to.

    The file is opened for every line: a rotated log is followed, nothing is shared over a fork, and
    there is nothing to flush. Raises OSError at once when the file cannot be opened for appending.
    """

    closed = False

    def __init__(self, path: str) -> None:
        self._path = os.path.abspath(path)  # A server that turns itself into a daemon changes the directory.
        self._failed = False
        os.close(self._open())

    def write(self, text: str) -> int:
        """Append `text`; a full or vanished disk loses the line and logs one warning, never an error."""
        data = text.encode("utf-8")
        try:
            descriptor = self._open()
            try:
                written = os.write(descriptor, data)
                if written < len(data):
                    # The disk is full. End the torn line, so that it spoils no other.
                    os.write(descriptor, b"\n")
                    raise OSError(f"only {written} of {len(data)} bytes fitted")
            finally:
                os.close(descriptor)
            self._failed = False
        except OSError as error:
            if not self._failed:
                _logger.warning("spans are lost, they cannot be written to %s: %s", self._path, error)
            self._failed = True
        return len(text)

    def flush(self) -> None:
        """Do nothing: every text is written at once."""

    def close(self) -> None:
        """Do nothing: no file remains open."""

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
