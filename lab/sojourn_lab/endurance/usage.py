"""What a process, with all it has started, and a folder take at an instant, from /proc and the file system."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

PAGE = os.sysconf("SC_PAGE_SIZE")


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
        folder = Path("/proc", str(pid))
        with contextlib.suppress(OSError, ValueError, IndexError):
            pages = folder.joinpath("statm").read_text().split()
            fields = _fields(folder)
            opened = len(os.listdir(folder / "fd"))
            processes, files = processes + 1, files + opened
            resident += (int(pages[1]) - int(pages[2])) * PAGE
            # utime and stime are the 14th and 15th fields of the whole line.
            cpu += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return Usage(processes, resident, files, cpu)


def family_of(first: int) -> list[int]:
    """Return a process and all its descendants, whatever sessions they made for themselves."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            children.setdefault(int(_fields(folder)[1]), []).append(int(folder.name))
    family = [first]
    for pid in family:
        family += children.get(pid, [])
    return family


def _fields(folder: Path) -> list[str]:
    # The command's name is in parentheses and may hold anything.
    return folder.joinpath("stat").read_text(errors="replace").rpartition(")")[2].split()


def disk_of(folder: Path) -> int:
    """Return the bytes of all files below a folder; what goes away meanwhile counts nothing."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(root, name)).st_size
    return total
