"""Limits of a recording besides its packets: existing files, free disk space, and time."""

from __future__ import annotations

import math
import os
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from sojourn.model.errors import CaptureError

PRIVATE = 0o077
"""The umask: what clients sent, cookies and all, is for the eyes of the one who recorded it."""

_TURN_S, _LOOK_S = 0.1, 0.5
_LEAST_FREE_BYTES = 8 << 20


def existing_refused(files: Sequence[Path], overwrite: bool) -> None:
    """Raise CaptureError where the files' folder is missing, or one of them exists and may not be replaced."""
    folder = files[0].parent
    # os.path: those of Path raise where a folder above may not be entered.
    if not os.path.isdir(folder):
        raise CaptureError(f"{folder}: no such folder: mkdir -p {folder}")
    there = [path for path in files if os.path.exists(path)]
    if there and not overwrite:
        raise CaptureError(f"{there[0]} is there already: give another name, or --force to replace it")


def waited(ended: threading.Event, folder: Path, seconds: float | None, interrupted: Callable[[], bool]) -> str | None:
    """Wait for the first of these, or until the folder's disk is full; return that as a sentence."""
    deadline = math.inf if seconds is None else time.monotonic() + seconds
    looked = 0.0
    # A signal's handler may set no Event that this thread waits for, so there is nothing but to ask now and then.
    while not ended.wait(max(min(_TURN_S, deadline - time.monotonic()), 0)) and not interrupted():
        now = time.monotonic()
        if now >= deadline:
            break
        if now - looked > _LOOK_S:
            looked = now
            if full := no_room(folder):
                return full
    return None


def no_room(folder: Path) -> str | None:
    """Return a sentence if the folder's disk is full. tcpdump goes on, and counts on, where it cannot write."""
    free = shutil.disk_usage(folder).free
    if free >= _LEAST_FREE_BYTES:
        return None
    consequence = "what was recorded before is kept, the last packets may be missing"
    return f"{folder}: no room left ({free / 1e6:.1f} MB); {consequence}"
