"""The exceptions whose text is written for the user, and the reason of a failed read or write."""

from __future__ import annotations

import errno
import os
import re
import shutil
from contextlib import suppress
from pathlib import Path

LEAST_ROOM = 1 << 16
"""Bytes; a disk with fewer is full."""


class SojournError(Exception):
    """An error that the user can correct: a missing file, a wrong option, a log without records.

    The command line prints its text on stderr and exits with 1; it never shows a traceback.
    """


class ArgumentError(SojournError):
    """An invalid argument of a function, or of the option it came from."""


class CaptureError(SojournError):
    """Packets cannot be recorded, or no longer; the text has the reason and, if known, a remedy."""


class KernelUnavailableError(SojournError):
    """This kernel does not provide a figure: not Linux, no such file, or no permission. The text names the figure."""


def reason_of(error: Exception, folder: Path | None = None) -> str:
    """Return the reason of a failed read or write in the system's words, without those of an engine.

    ``folder``: where it was to be written; that its disk is full, not every engine says.
    """
    number = error.errno if isinstance(error, OSError) else None
    wrapped = re.search(r"\(os error (\d+)\)", str(error))
    if wrapped:
        number = int(wrapped[1])
    if number is None and folder is not None:
        with suppress(OSError):
            number = errno.ENOSPC if shutil.disk_usage(folder).free < LEAST_ROOM else None
    return os.strerror(number) if number else str(error).partition("\n")[0] or type(error).__name__
