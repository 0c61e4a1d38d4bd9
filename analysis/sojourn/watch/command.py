"""``sojourn watch``: show the current queue of a log that is being written.

Measures the same as ``sojourn split``, for requests that ended in the last ten seconds, minute and ten minutes: the
time from the stamp to the app's start, and from there to its response headers.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from sojourn.invocation.options import LogFormatOption
from sojourn.invocation.progress import pipe_closed_early_is_fine
from sojourn.invocation.reading import nothing
from sojourn.model.errors import SojournError
from sojourn.model.formatting import rounded
from sojourn.model.groups import GROUPS
from sojourn.model.verdict import SLO
from sojourn.present.signals import signals_received

if TYPE_CHECKING:
    from sojourn.readers.formats.line_format import LineFormat
    from sojourn.readers.formats.units import Units
    from sojourn.watch.view import View
    from sojourn.watch.watcher import Choice, Watcher

WIDTH, LEAST_WIDTH = 80, 40
THEMES = ("terminal", "dark", "light")


def watch(
    logs: Annotated[
        list[str],
        typer.Argument(
            metavar="LOG...", help="Logs that are being written, globs of them, folders of runs, named pipes, -."
        ),
    ],
    by: Annotated[str, typer.Option("--by", metavar="|".join(GROUPS), help="Initial column to group by.")] = "route",
    where: Annotated[
        str,
        typer.Option(
            "--filter", metavar="TEXT", help="Only requests with this text in a group column, or COLUMN=VALUE."
        ),
    ] = "",
    every: Annotated[float, typer.Option(metavar="S", min=0.2, max=3600, help="Redraw every S seconds.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Print the last ten minutes once, and exit.")] = False,
    from_start: Annotated[
        bool,
        typer.Option("--from-start", help="Read the whole log as a replay: its last record defines the current time."),
    ] = False,
    slo: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="A p99 below this, with little queueing, is healthy.")
    ] = SLO,
    theme: Annotated[
        str, typer.Option(metavar="|".join(THEMES), help="Initial colours: the terminal's own, dark or light.")
    ] = "terminal",
    log_format: LogFormatOption = None,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print JSON: one object with --once, otherwise one object per line every S seconds."
        ),
    ] = False,
) -> None:
    """Show the current queue of a log while it is written.

    For requests that ended in the last 10 s, minute and ten minutes: queueing, service, errors, causes of waiting, and
    the queue depth of every backend. Keys: q quits, ? shows the others. Log rotation is followed.
    """
    if by not in GROUPS:
        raise typer.BadParameter(f"{by!r} is not one of {', '.join(GROUPS)}", param_hint="--by")
    if theme not in THEMES:
        raise typer.BadParameter(f"{theme!r} is not one of {', '.join(THEMES)}", param_hint="--theme")
    from sojourn.sources.log_files import format_of_text  # noqa: PLC0415
    from sojourn.watch.watcher import Choice, watcher_of  # noqa: PLC0415 - Polars and DuckDB take their time to load

    choice = Choice(by, where)
    form = None if log_format is None else format_of_text(log_format)
    if once:
        _once(logs, choice, slo, as_json, form)
        return
    on_terminal = sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in {"dumb", "unknown", ""}
    draws = on_terminal and not as_json
    watcher = watcher_of(logs, from_start=from_start, slo=slo, form=form)
    try:
        if draws:
            _draw_on_terminal(watcher, choice, every, theme)
        else:
            _print_repeatedly(watcher, every, choice, _as_json if as_json else _as_block)
    finally:
        watcher.close()


def _once(logs: list[str], choice: Choice, slo: float, as_json: bool, form: LineFormat | Units | None) -> None:
    from sojourn.watch.watcher import read_once  # noqa: PLC0415

    wall = datetime.now(UTC)
    watcher = read_once(logs, wall, slo=slo, form=form)
    view = watcher.view(choice, wall, watcher.end_of_log(wall))
    watcher.close()
    if as_json or view.in_memory:
        with pipe_closed_early_is_fine():
            sys.stdout.write(_as_json(view, indent=2) if as_json else _as_text(view))
    if not view.in_memory:
        ahead = watcher.ahead.sentence
        raise SojournError(f"{ahead} `sojourn split` reads the log." if ahead else nothing(view.records))


def _draw_on_terminal(watcher: Watcher, choice: Choice, every: float, theme: str) -> None:
    from sojourn.watch.app import watch_terminal  # noqa: PLC0415 - Textual is loaded where it draws only
    from sojourn.watch.cells import speaks_utf8  # noqa: PLC0415
    from sojourn.watch.screen import Looks  # noqa: PLC0415

    watch_terminal(watcher, choice, Looks(every=every, ascii_only=not speaks_utf8()), theme)


def _print_repeatedly(watcher: Watcher, every: float, choice: Choice, text_of: Callable[[View], str]) -> None:
    """Print a view every ``every`` seconds until the logs have ended.

    Raises:
        SystemExit: a signal came.
    """
    from sojourn.sources.live.reader import POLL_INTERVAL  # noqa: PLC0415

    watcher.catch_up(datetime.now(UTC))
    with signals_received() as received, pipe_closed_early_is_fine():
        while not received:
            wall = datetime.now(UTC)
            watcher.read(wall)
            sys.stdout.write(text_of(watcher.view(choice, wall)))
            sys.stdout.flush()
            if watcher.ended and not watcher.behind:
                return
            due = time.monotonic() + every
            while (left := due - time.monotonic()) > 0 and not watcher.ended and not received:
                watcher.poll()
                time.sleep(min(left, POLL_INTERVAL))
        raise SystemExit(128 + received[0])


def _as_json(view: View, indent: int | None = None) -> str:
    return json.dumps(rounded(view.to_dict()), indent=indent) + "\n"


def _as_block(view: View) -> str:
    return _as_text(view) + "\n"


def _as_text(view: View) -> str:
    from sojourn.watch.cells import speaks_utf8  # noqa: PLC0415
    from sojourn.watch.screen import Looks, screen, text_of  # noqa: PLC0415

    width = max(shutil.get_terminal_size((WIDTH, 0)).columns, LEAST_WIDTH)
    return text_of(screen(view, Looks(ascii_only=not speaks_utf8(), live=False), width))
