"""Progress on stderr: bars on a terminal, nothing elsewhere."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class Watcher:
    """A receiver of a run's progress; this one shows nothing."""

    def stage(self, what: str) -> None:
        """Report the start of a stage, such as starting the servers."""

    def case(self, name: str, seconds: float) -> None:
        """Report the start of a case, which will take about `seconds`."""

    def elapsed(self, seconds: float) -> None:
        """Report how long the current case has been running."""


class Bars(Watcher):
    """One bar per case, and a line for the current stage."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._stage: TaskID | None = None
        self._case: TaskID | None = None

    def stage(self, what: str) -> None:
        """Show the stage; a case before it is complete."""
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
    """Yield a watcher: bars if stderr is a terminal and `quiet` is false."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield Watcher()
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
