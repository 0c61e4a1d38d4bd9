"""Shared by every verb: instants, pairs, progress."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TextIO, TypedDict

import typer

from sojourn.model.formatting import printable

_AGO = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|min|h|d)(?:\s+ago)?")
_UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}


class BytesRead(TypedDict):
    """Callbacks of a reading function, with the total bytes (None: unknown) and the bytes read so far."""

    on_size: Callable[[int | None], None]
    on_progress: Callable[[int], None]


def instant(text: str | None) -> datetime | None:
    """Parse an instant: ISO 8601 (UTC without a zone), unix seconds, or an age such as ``10m``.

    Raises:
        typer.BadParameter: it is none of these.
    """
    if text is None:
        return None
    ago = _AGO.fullmatch(text.strip())
    try:
        if ago:
            return datetime.now(UTC) - timedelta(seconds=float(ago[1]) * _UNITS[ago[2]])
        if re.fullmatch(r"\d{9,10}(\.\d+)?", text):
            return datetime.fromtimestamp(float(text), UTC)
        parsed = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise typer.BadParameter(
            f"{text!r} is not an instant: give 2026-01-31T12:00:00Z, unix seconds, or 10m for ten minutes ago"
        ) from None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


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
