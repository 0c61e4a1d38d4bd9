"""Shared by every verb: instants, pairs, progress."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TextIO, TypedDict

import typer

from sojourn.model.errors import ArgumentError
from sojourn.model.formatting import printable
from sojourn.model.instants import limit_of


class BytesRead(TypedDict):
    """Callbacks of a reading function, with the total bytes (None: unknown) and the bytes read so far."""

    on_size: Callable[[int | None], None]
    on_progress: Callable[[int], None]


def instant(text: str | None, option: str | None = None) -> datetime | None:
    """Return the instant of an option's text; see ``sojourn.model.instants``.

    Raises:
        typer.BadParameter: it is none, or has no zone.
    """
    try:
        return limit_of(text)
    except ArgumentError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def pairs(texts: list[str], option: str) -> dict[str, str]:
    """Return ``["a=1", "b=2"]`` as a mapping.

    Raises:
        typer.BadParameter: one has no ``=``.
    """
    for text in texts:
        if "=" not in text:
            raise typer.BadParameter(f"{text!r} is not COLUMN=VALUE", param_hint=option)
    return dict(text.split("=", 1) for text in texts)


@contextmanager
def pipe_closed_early_is_fine() -> Iterator[None]:
    """Exit quietly if the reader of standard output closed it, as ``… | head`` does."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # Or the interpreter complains when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _can_be_written_over(stream: TextIO) -> bool:
    """Return whether the stream is a terminal that can move its cursor."""
    return stream.isatty() and os.environ.get("TERM", "") not in {"", "dumb", "unknown"}


@contextmanager
def reading_bar(quiet: bool) -> Iterator[BytesRead]:
    """Show a progress bar over bytes read, on a terminal's stderr only; yield the reader's arguments."""
    if quiet or not _can_be_written_over(sys.stderr):
        yield {"on_size": lambda _: None, "on_progress": lambda _: None}
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    columns = (TextColumn("reading"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("reading", total=None)
        yield {
            "on_size": lambda total: progress.update(task, total=total),
            "on_progress": lambda position: progress.update(task, completed=position),
        }


@contextmanager
def doing(quiet: bool) -> Iterator[Callable[[str], None]]:
    """Show the current operation on stderr if it is a terminal; yield a function that changes the text."""
    if quiet or not _can_be_written_over(sys.stderr):
        yield lambda _: None
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    with Console(stderr=True).status("") as status:
        yield lambda words: status.update(Text(printable(words, 500)))
