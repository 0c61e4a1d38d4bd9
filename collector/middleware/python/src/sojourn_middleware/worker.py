"""The name of the worker that serves a request: the process, or the process and the number of a thread.

Thread identifiers of the operating system are large and reused at random; an analysis counts distinct
workers, so a thread gets the smallest number that no living thread of the process holds, and gives it back
when it ends.
"""

from __future__ import annotations

import heapq
import os
import threading


class _ThreadNumbers:
    """Hands out 1, 2, 3, … to the threads of one process."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._free: list[int] = []
        self._highest = 0
        self._mine = threading.local()

    def mine(self) -> int:
        own: _ThreadNumber | None = getattr(self._mine, "own", None)
        if own is None:
            own = self._mine.own = _ThreadNumber(self._take(), self)
        return own.number

    def _take(self) -> int:
        with self._lock:
            if self._free:
                return heapq.heappop(self._free)
            self._highest += 1
            return self._highest

    def give_back(self, number: int) -> None:
        with self._lock:
            heapq.heappush(self._free, number)


class _ThreadNumber:
    """Lives in a thread's local storage, which the interpreter clears when the thread ends."""

    def __init__(self, number: int, numbers: _ThreadNumbers) -> None:
        self.number = number
        self._numbers = numbers
        self._pid = os.getpid()

    def __del__(self) -> None:
        if self._pid == os.getpid():
            self._numbers.give_back(self.number)


# By process id: a forked child has one thread, whatever the parent had, and the parent's lock may be held forever. Not
# every server calls the hooks of `os.register_at_fork`: uWSGI does so only with py-call-osafterfork.
_numbers: dict[int, _ThreadNumbers] = {}


def worker_name(multithread: bool, pid: int) -> str:
    """Return the id of this process, ``1234``, or ``1234.2`` with the thread's number if threads serve in parallel."""
    if not multithread:
        return str(pid)
    # setdefault, because the first requests of a process can be in several threads; it needs no lock.
    numbers = _numbers.get(pid) or _numbers.setdefault(pid, _ThreadNumbers())
    return f"{pid}.{numbers.mine()}"
