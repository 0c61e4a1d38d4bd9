"""Progress on stderr: bars for people at a terminal, nothing for anybody else."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class Watcher(Protocol):
    """Whoever wants to know how far a run is."""

    def stage(self, what: str) -> None:
        """Take note that this is being done now."""

    def case(self, name: str, seconds: float) -> None:
        """Take note that a case starts, which will take about so many seconds."""

    def elapsed(self, seconds: float) -> None:
        """Take note that the current case has been running this long."""


class Silence:
    """A watcher that says nothing."""

    def stage(self, what: str) -> None:
        """Say nothing."""

    def case(self, name: str, seconds: float) -> None:
        """Say nothing."""

    def elapsed(self, seconds: float) -> None:
        """Say nothing."""


class Bars:
    """One bar a case, and a line for what is being done beside."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._stage: TaskID | None = None
        self._case: TaskID | None = None

    def stage(self, what: str) -> None:
        """Show what is being done; the case before it, if there was one, is complete."""
        self._complete_case()
        if self._stage is not None:
            self._progress.remove_task(self._stage)
        self._stage = self._progress.add_task(what, total=None)

    def case(self, name: str, seconds: float) -> None:
        """Open a bar for a case."""
        self._complete_case()
        if self._stage is not None:
            self._progress.remove_task(self._stage)
            self._stage = None
        self._case = self._progress.add_task(name, total=seconds)

    def elapsed(self, seconds: float) -> None:
        """Move the bar of the current case."""
        if self._case is not None:
            self._progress.update(self._case, completed=seconds)

    def _complete_case(self) -> None:
        if self._case is not None:
            total = self._progress.tasks[-1].total if self._progress.tasks else None
            self._progress.update(self._case, completed=total or 0.0)
            self._case = None


@contextlib.contextmanager
def watched(quiet: bool) -> Iterator[Watcher]:
    """Yield a watcher: bars on stderr if that is a terminal and nobody asked for quiet."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield Silence()
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        yield Bars(progress)
