"""What a process, with all it has started, and a folder take at an instant, from /proc and the file system."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

from sojourn_lab.measure.proc import GONE, family_in, memory_of, stat_of, stats_of_all


@dataclass(frozen=True)
class Usage:
    """What a process and those it started take together.

    Attributes:
        processes: how many they are.
        resident: bytes of memory that are theirs alone and in it now (resident less shared with files or others).
        files: open descriptors.
        cpu: processor time so far, s.
    """

    processes: int
    resident: int
    files: int
    cpu: float


def usage_of(first: int) -> Usage:
    """Return what a process and its descendants take; one that ends meanwhile is left out."""
    processes = resident = files = 0
    cpu = 0.0
    for pid in family_of(first):
        with contextlib.suppress(*GONE):
            memory, used, opened = memory_of(pid), stat_of(pid).cpu, len(os.listdir(f"/proc/{pid}/fd"))
            processes, files, cpu = processes + 1, files + opened, cpu + used
            resident += memory.resident - memory.shared
    return Usage(processes, resident, files, cpu)


def family_of(first: int) -> list[int]:
    """Return a process and all its descendants."""
    return family_in(stats_of_all(), first)


def disk_of(folder: Path) -> int:
    """Return the bytes of all files below a folder; what goes away meanwhile counts nothing."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(root, name)).st_size
    return total
