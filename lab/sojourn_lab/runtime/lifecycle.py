"""Start several things together, and always stop them together."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from sojourn_lab.runtime.interrupts import Interrupts
from sojourn_lab.runtime.process import Process


class Lifecycle:
    """A context: ready when entered, stopped when left, whatever happened in between.

    A subclass says in `_start_all` what is started; what is put on `_stack` is taken down in the opposite order.
    `spin_up` and `tear_down` are seconds.
    """

    def __init__(self, logs: Path, interrupts: Interrupts) -> None:
        logs.mkdir(exist_ok=True)
        self._logs = logs
        self._interrupts = interrupts
        self._stack = contextlib.ExitStack()
        self.spin_up = 0.0
        self.tear_down = 0.0

    def __enter__(self) -> Self:
        before = time.monotonic()
        try:
            self._start_all()
        except BaseException:
            self._stop_all()
            raise
        self.spin_up = time.monotonic() - before
        return self

    def _start_all(self) -> None:
        """Start everything, and return when it is ready."""

    def started(
        self, command: list[str], name: str, *, pass_fds: Sequence[int] = (), env: Mapping[str, str] | None = None
    ) -> Process:
        """Return a started process of this machine; it is stopped with the rest."""
        with self._interrupts.shielded():
            process = Process(command, name=name, folder=self._logs, pass_fds=list(pass_fds), env=env)
            process.start()
            self._stack.callback(process.stop)
        return process

    def __exit__(self, *_: object) -> None:
        self._stop_all()

    def _stop_all(self) -> None:
        before = time.monotonic()
        with self._interrupts.shielded():
            self._stack.close()
        self.tear_down = time.monotonic() - before
