"""Start, await and end the processes of a run, so that none outlives it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from sojourn_lab.errors import LabError
from sojourn_lab.runtime import orphan_reaper

POLL_S = 0.01
_LAST_LINES = 15


def group_members(group: int) -> list[int]:
    """Return the living processes of a process group, without zombies, from /proc; empty without /proc."""
    members = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The command name is in parentheses and may hold anything, so count fields from the last one.
            state, _parent, pgrp = entry.read_text(errors="replace").rpartition(")")[2].split()[:3]
        except (OSError, ValueError):
            continue  # it ended meanwhile
        if int(pgrp) == group and state not in "ZX":
            members.append(int(entry.parent.name))
    return members


def session_of_its_own(program: str, *arguments: str) -> subprocess.Popen[bytes]:
    """Start a Python program of the standard library alone that reads from this process and may outlive it."""
    return subprocess.Popen(
        [sys.executable, "-I", "-S", program, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


class _Guard:
    """This process's orphan reaper, started with the first process of the lab and notified of every group."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._program: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._groups: set[int] = set()
        self._loads: set[int] = set()

    def servers(self) -> set[int]:
        with self._lock:
            return self._groups - self._loads if self._owner == os.getpid() else set()

    def add_load(self, group: int) -> None:
        with self._lock:
            self._loads.add(group)

    def add(self, group: int) -> None:
        with self._lock:
            if self._owner != os.getpid():
                self._groups.clear()  # after a fork the parent ends them
                self._loads.clear()
            self._groups.add(group)
            if self._owner == os.getpid() and self._program is not None and self._program.poll() is None:
                self._tell(f"+{group}\n")
            else:
                self._start()

    def discard(self, group: int) -> None:
        with self._lock:
            self._groups.discard(group)
            self._loads.discard(group)
            if self._owner == os.getpid():
                self._tell(f"-{group}\n")

    def _start(self) -> None:
        self._program = session_of_its_own(orphan_reaper.__file__)
        self._owner = os.getpid()
        self._tell("".join(f"+{group}\n" for group in self._groups))

    def _tell(self, lines: str) -> None:
        if self._program is not None and self._program.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._program.stdin.write(lines.encode())
                self._program.stdin.flush()


_guard = _Guard()


def server_groups() -> set[int]:
    """Return the running process groups that this process started, without generators of load."""
    return _guard.servers()


class Process:
    """A command in a process group of its own, its output in `<folder>/<name>.out` and `<folder>/<name>.err`.

    Use it as a context manager, or call `start()` and `stop()`; `stop()` may be called any number of times.
    Whatever the command starts belongs to the group and ends with it, also when this Python process is killed.
    `stop_signal` is what asks the command (its first process only) to end in good order.
    """

    def __init__(
        self,
        args: Sequence[str | os.PathLike[str]],
        *,
        name: str,
        folder: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stop_signal: signal.Signals = signal.SIGTERM,
        pass_fds: Sequence[int] = (),
    ) -> None:
        self.args = [os.fspath(arg) for arg in args]
        self.name = name
        self.out_path = folder / f"{name}.out"
        self.err_path = folder / f"{name}.err"
        self._env = dict(env) if env is not None else None
        self._cwd = cwd
        self._stop_signal = stop_signal
        self._pass_fds = tuple(pass_fds)
        self._popen: subprocess.Popen[bytes] | None = None
        self._ending = self._stopped = False

    def start(self) -> Self:
        """Start the command; LabError if it cannot be executed."""
        if self._popen is not None:
            raise LabError(f"{self.name} was already started")
        self.out_path.parent.mkdir(parents=True, exist_ok=True)
        with self.out_path.open("ab") as out, self.err_path.open("ab") as err:
            self._popen = self._spawned(out, err)
        _guard.add(self.pid)
        return self

    def _spawned(self, out: IO[bytes], err: IO[bytes]) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                self.args,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=self._env,
                cwd=self._cwd,
                pass_fds=self._pass_fds,
                # A session, not only a group: Ctrl-C at the terminal is for the lab, which then stops everything.
                start_new_session=True,
            )
        except OSError as error:
            raise LabError(f"{self.name} could not be started: {error.strerror}: {self.args[0]}") from error

    def mark_as_load(self) -> None:
        """Mark the started command as a generator of load, not a server."""
        _guard.add_load(self.pid)

    @property
    def pid(self) -> int:
        """Id of the first process, which is also the id of the group."""
        if self._popen is None:
            raise LabError(f"{self.name} was never started")
        return self._popen.pid

    def exit_code(self) -> int | None:
        """Return the exit code of the first process (negative: its signal); None while it runs."""
        if self._popen is None:
            return None
        if self._popen.returncode is not None:
            return self._popen.returncode
        # WNOWAIT leaves the zombie in place: as long as it exists the process group id is not reused.
        try:
            state = os.waitid(os.P_PID, self._popen.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return self._popen.poll()  # another thread has reaped it
        if state is None:
            return None
        return state.si_status if state.si_code == os.CLD_EXITED else -state.si_status

    def running(self) -> bool:
        """Return whether the first process is started and has not exited."""
        return self._popen is not None and self.exit_code() is None

    def send_signal(self, which: signal.Signals) -> None:
        """Send a signal to the first process, if it still runs."""
        if self.running():
            os.kill(self.pid, which)

    def last_lines(self, count: int = _LAST_LINES) -> str:
        """Return the last lines of the command, standard output before standard error."""
        lines: list[str] = []
        for path in (self.out_path, self.err_path):
            with contextlib.suppress(OSError):
                lines += path.read_text(errors="replace").splitlines()[-count:]
        return "\n".join(lines[-count:])

    def wait_until(self, predicate: Callable[[], bool], deadline_s: float, what: str) -> None:
        """Poll until `predicate()` is true.

        LabError with the last lines of the log when the process exits first, or when `deadline_s` seconds passed.
        """
        deadline = time.monotonic() + deadline_s
        while not predicate():
            code = self.exit_code()
            # It may have ended, as expected, just after the predicate was evaluated: evaluate it again.
            if code is not None and not predicate():
                raise LabError(self._with_log(f"{self.name} exited with {code} while the lab waited for {what}"))
            if time.monotonic() > deadline:
                raise LabError(self._with_log(f"{self.name}: waited {deadline_s:g} s for {what}"))
            time.sleep(POLL_S)

    def wait(self, deadline_s: float) -> int:
        """Wait for the command to end by itself, and return its exit code; LabError after `deadline_s` seconds."""
        deadline = time.monotonic() + deadline_s
        while (code := self.exit_code()) is None:
            if time.monotonic() > deadline:
                raise LabError(self._with_log(f"{self.name} still runs after {deadline_s:g} s"))
            time.sleep(POLL_S)
        return code

    def begin_stop(self) -> None:
        """Send the stop signal, once, and do not wait: processes that are to end together begin before `stop()`."""
        if not self._ending:
            self._ending = True
            self.send_signal(self._stop_signal)

    def stop(self, deadline_s: float = 5.0) -> int | None:
        """End the group: the stop signal first, SIGKILL for remaining processes after `deadline_s` seconds.

        Returns the exit code of the first process (None when it was never started). Can be called again.
        """
        if self._popen is None or self._stopped:
            return self.exit_code()
        self.begin_stop()
        with contextlib.suppress(LabError):
            self.wait(deadline_s)
        # The group outlives its first process: a killed master leaves workers behind.
        self._kill_group()
        code = self._popen.wait()
        self._stopped = True
        _guard.discard(self.pid)
        return code

    def _kill_group(self) -> None:
        deadline = time.monotonic() + 5.0
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        while group_members(self.pid) and time.monotonic() < deadline:
            time.sleep(POLL_S)

    def _with_log(self, message: str) -> str:
        lines = self.last_lines()
        return f"{message}\n{lines}" if lines else message

    def __enter__(self) -> Self:
        return self if self._popen is not None else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
