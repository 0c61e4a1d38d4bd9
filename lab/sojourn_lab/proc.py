"""What Linux says of a process: /proc/PID/stat and statm, as man proc has them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")

GONE = (OSError, ValueError, IndexError)
"""What both functions raise of a process that is not there, or ends while it is read."""


class Stat(NamedTuple):
    """Of a process: its parent, processor time so far (all threads, s), and its start (ticks since boot)."""

    parent: int
    cpu: float
    start: int


class Memory(NamedTuple):
    """Bytes in memory now, and those of them that are shared with files or other processes."""

    resident: int
    shared: int


def stat_of(pid: int) -> Stat:
    """Return what /proc/PID/stat says; raises one of ``GONE``."""
    # The second field, the name, is in parentheses and may hold anything: the third is the first after the last one.
    fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    return Stat(int(fields[1]), (int(fields[11]) + int(fields[12])) / TICKS, int(fields[19]))


def memory_of(pid: int) -> Memory:
    """Return what /proc/PID/statm says; raises one of ``GONE``."""
    fields = Path(f"/proc/{pid}/statm").read_text().split()
    return Memory(int(fields[1]) * PAGE, int(fields[2]) * PAGE)
