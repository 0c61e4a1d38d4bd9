"""``sojourn store files``: what the agent has not read of nginx's logs, once or as samples for the store."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sojourn.invocation.options import AsJson
from sojourn.invocation.progress import pipe_closed_early_is_fine
from sojourn.model.errors import SojournError
from sojourn.model.formatting import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sojourn.host.log_files import LogFile

PERIOD = 10.0  # s at most: a line is placed by the size that its file had in the ten seconds of the line
LARGEST_FILE = 1 << 25  # of samples: two of them hold some weeks


def files(
    logs: Annotated[
        list[str],
        typer.Argument(metavar="LOG...", help="nginx's logs, or globs of them. Rotated files are added to each."),
    ],
    agent: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Vector's data_dir: what the store has acknowledged is in it.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="F", help="Append samples to this file, until a signal; the agent ships it to the store."),
    ] = None,
    every: Annotated[float, typer.Option(metavar="S", min=0.2, max=PERIOD, help="Seconds between samples.")] = PERIOD,
    as_json: AsJson = False,
) -> None:
    """Show what the agent has not read of nginx's logs, once; with --out, sample it for the store."""
    from sojourn.host.log_files import log_files  # noqa: PLC0415

    if out is not None:
        _sample(logs, agent, out, every)
        return
    present = sorted(log_files(logs, agent), key=lambda file: (file.log, -file.written))
    if not present:
        raise SojournError(f"{', '.join(map(printable, logs))}: no log with a whole line")
    with pipe_closed_early_is_fine():
        if as_json:
            json.dump(
                {"files": [asdict(file) | {"unread": None if file.read is None else file.unread} for file in present]},
                sys.stdout,
                indent=2,
            )
            sys.stdout.write("\n")
        else:
            _print(present)


def _print(present: Sequence[LogFile]) -> None:
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    from sojourn.host.log_files import alike, lines_unread  # noqa: PLC0415

    table = Table("file", "bytes", "unread bytes", "unread lines", box=None)
    for column in table.columns[1:]:
        column.justify = "right"
    for file in present:
        figures = ("?", "?") if file.read is None else (f"{file.unread:,}", f"{lines_unread(file):,}")
        table.add_row(printable(file.path), f"{file.size:,}", *figures)
    Console().print(table)
    for one, other in alike(present):
        typer.echo(
            f"{printable(other.path)} begins with the same line as {printable(one.path)}: Vector reads only one of "
            "them. Set fingerprint.strategy to device_and_inode.",
            err=True,
        )


def _sample(logs: Sequence[str], agent: Path | None, out: Path, every: float) -> None:
    from sojourn.host.lines_file import LinesFile  # noqa: PLC0415
    from sojourn.host.log_files import LogFileSampler, last_sample  # noqa: PLC0415
    from sojourn.present.signals import signals_received  # noqa: PLC0415

    sampler = LogFileSampler(logs, agent, after=last_sample(out))
    failing = ""
    with signals_received() as signals:
        try:
            lines = LinesFile(out, keep=True, max_bytes=LARGEST_FILE)
            try:
                while not signals:
                    due = time.monotonic() + every
                    try:
                        lines.write(sampler.sample())
                        failing = ""
                    except SojournError as error:  # an agent that starts, or rights that an operator will mend
                        if str(error) != failing:
                            failing = str(error)
                            typer.echo(f"no samples: {printable(failing)}", err=True)
                    lines.rotated()
                    while not signals and (left := due - time.monotonic()) > 0:
                        time.sleep(min(left, 0.2))
            finally:
                lines.close()
        except OSError as error:
            raise SojournError(f"{out}: cannot be written ({error.strerror})") from None
