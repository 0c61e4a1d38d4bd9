"""gunicorn's workers, added and removed by signals to its master, and the processor time that they use."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sojourn_lab.measure.proc import GONE, PROC, run_times_of
from sojourn_lab.runtime.process import Process, group_members

OWN_STARTUP = 0.3
"""Seconds from the signal until a worker of the lab's app is ready, beside the time that the app takes to load."""

PATIENCE = 3.0
"""Seconds after the last signal from which the workers that live are taken for the number that gunicorn keeps."""


def live_workers(master: int, root: Path = PROC) -> list[int]:
    """Return the process ids of gunicorn's workers: the children of its master."""
    try:
        return [int(pid) for pid in (root / str(master) / "task" / str(master) / "children").read_text().split()]
    except OSError:
        # A kernel without this file, or a master that has ended.
        return [pid for pid in group_members(master) if pid != master]


class Workers:
    """The workers of a running gunicorn.

    `step` sends at most one signal, SIGTTIN or SIGTTOU, and is called again and again: two equal signals at once would
    be one to a process. gunicorn removes its oldest worker, after the request that it serves.

    Args:
        gunicorn: its master.
        workers: that it has, all of them ready.
        startup: seconds from the start of a worker until it is ready.
    """

    def __init__(self, gunicorn: Process, workers: int, startup: float = OWN_STARTUP) -> None:
        self._gunicorn = gunicorn
        self._configured = workers
        self._startup = startup
        self._signalled = time.monotonic()
        self._ready_at = dict.fromkeys(self.live(), self._signalled)
        self.desired = workers
        """The number to reach; the autoscaler sets it."""
        self.born: dict[int, float] = {}
        """Process id -> when a later worker was first there, unix s."""

    def live(self) -> list[int]:
        """Return the process ids of the workers that live, those that finish their last request included."""
        return live_workers(self._gunicorn.pid)

    def ready(self) -> list[int]:
        """Return the process ids of the workers that live and have had the time to start."""
        now = time.monotonic()
        return [pid for pid in self.live() if self._ready_at.get(pid, math.inf) <= now]

    def step(self) -> int:
        """Send a signal if gunicorn keeps another number than `desired`; return the workers that live."""
        pids, now = self.live(), time.monotonic()
        live = len(pids)
        self.born |= {pid: time.time() for pid in pids if pid not in self._ready_at and pid not in self.born}
        self._ready_at = {pid: self._ready_at.get(pid, now + self._startup) for pid in pids}
        if self._configured == self.desired:
            if live != self._configured and now - self._signalled > PATIENCE:
                # A signal was lost, or a worker has died, which gunicorn replaces.
                self._configured, self._signalled = live, now
            return live
        up = self._configured < self.desired
        self._gunicorn.send_signal(signal.SIGTTIN if up else signal.SIGTTOU)
        self._configured += 1 if up else -1
        self._signalled = now
        return live


@dataclass(frozen=True)
class CpuTimes:
    """The processor time (s) of each worker so far, by process id, at an instant (s)."""

    time: float
    used: Mapping[int, float]


def cpu_times(pids: list[int], now: float) -> CpuTimes:
    """Return the processor times of processes at the instant `now`; those that have ended are left out."""
    used = {}
    for pid in pids:
        try:
            used[pid] = run_times_of(pid)
        except GONE:
            continue
    return CpuTimes(now, used)


def cores_per_worker(before: CpuTimes, after: CpuTimes) -> float | None:
    """Return the mean cores used by the workers that lived through the whole time; None if there are none.

    A worker that has just been started is left out, as the Horizontal Pod Autoscaler does with pods that are not ready:
    the processor time of a start is not that of requests.
    """
    both = before.used.keys() & after.used.keys()
    seconds = after.time - before.time
    if not both or seconds <= 0.0:
        return None
    return sum(after.used[pid] - before.used[pid] for pid in both) / (len(both) * seconds)
