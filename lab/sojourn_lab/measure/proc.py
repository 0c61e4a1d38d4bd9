"""Read Linux's figures of processes and of the machine from /proc (man proc)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
PROC = Path("/proc")
NANOSECONDS = 1e-9

GONE = (OSError, ValueError, IndexError)
"""What the functions raise of a process that is not there, or ends while it is read."""


class Stat(NamedTuple):
    """Of a process: its parent, processor time so far (all threads, s), and its start (ticks since boot).

    `group` is its process group, `name` its command, and `children` the processor time (s) of its children that have
    ended and that it waited for.
    """

    parent: int
    cpu: float
    start: int
    group: int
    name: str
    children: float


class Memory(NamedTuple):
    """Resident bytes, and those of them that are shared with files or other processes."""

    resident: int
    shared: int


def stat_of(pid: int, root: Path = PROC) -> Stat:
    """Return the contents of /proc/PID/stat; raises one of ``GONE``."""
    # The second field, the name, is in parentheses and may hold anything: the third is the first after the last one.
    head, _, tail = (root / str(pid) / "stat").read_text(errors="replace").rpartition(")")
    fields = tail.split()
    user, system, user_of_children, system_of_children = (int(each) / TICKS for each in fields[11:15])
    return Stat(
        parent=int(fields[1]),
        cpu=user + system,
        start=int(fields[19]),
        group=int(fields[2]),
        name=head.partition("(")[2],
        children=user_of_children + system_of_children,
    )


def stats_of_all(root: Path = PROC) -> dict[int, Stat]:
    """Return /proc/PID/stat of every process that can be read, by its id."""
    stats = {}
    for name in os.listdir(root):
        if name.isdecimal():
            try:
                stats[int(name)] = stat_of(int(name), root)
            except GONE:
                continue  # it ended while we were reading
    return stats


def family_in(stats: Mapping[int, Stat], first: int) -> list[int]:
    """Return a process and all its descendants, whatever their sessions."""
    children: dict[int, list[int]] = {}
    for pid, stat in stats.items():
        children.setdefault(stat.parent, []).append(pid)
    family = [first]
    for pid in family:
        family += children.get(pid, [])
    return family


def run_times_of(pid: int, root: Path = PROC) -> float:
    """Return the processor time of a process so far, all threads, s; raises one of ``GONE``.

    From /proc/PID/task/TID/schedstat, in nanoseconds: /proc/PID/stat has steps of 10 ms. Where the kernel does not have
    it, from /proc/PID/stat.
    """
    threads = root / str(pid) / "task"
    used = 0.0
    for name in os.listdir(threads):
        try:
            used += int((threads / name / "schedstat").read_text().split()[0]) * NANOSECONDS
        except GONE:
            if (threads / name).exists():
                return stat_of(pid, root).cpu
    return used


def run_queue_waits_of(pid: int, root: Path = PROC) -> dict[int, float]:
    """Return the seconds for which each thread of a process was runnable and had no core, by its id.

    From /proc/PID/task/TID/schedstat; threads that end while it is read are left out. Raises one of ``GONE``, also
    where the kernel does not have these files.
    """
    threads = root / str(pid) / "task"
    waits = {}
    for name in os.listdir(threads):
        try:
            waits[int(name)] = int((threads / name / "schedstat").read_text().split()[1]) * NANOSECONDS
        except GONE:
            if (threads / name).exists():
                raise
    return waits


def stolen_time(root: Path = PROC) -> float:
    """Return the seconds of all cores that the hypervisor gave to other machines since boot; raises one of ``GONE``."""
    return int((root / "stat").read_text().split(maxsplit=9)[8]) / TICKS


def memory_of(pid: int) -> Memory:
    """Return the contents of /proc/PID/statm; raises one of ``GONE``."""
    fields = (PROC / str(pid) / "statm").read_text().split()
    return Memory(int(fields[1]) * PAGE, int(fields[2]) * PAGE)
