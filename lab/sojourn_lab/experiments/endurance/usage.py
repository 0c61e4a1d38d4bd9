"""Resource usage of a process with its descendants, and of a folder, at one instant."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

from sojourn_lab.measure.proc import GONE, family_in, memory_of, stat_of, stats_of_all


@dataclass(frozen=True)
class Usage:
    """Resource usage of a process and its descendants.

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
    """Return the resource usage of a process and its descendants, without those that end meanwhile."""
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
    """Return the bytes of all files below a folder; files that disappear meanwhile count as 0."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(root, name)).st_size
    return total
