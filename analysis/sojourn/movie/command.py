"""``sojourn movie``: animate the recorded queue.

Shows each request from the moment nginx contacts its backend until the worker is free again, or until nginx or the
client gives up.
"""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sojourn.invocation.answer import print_json
from sojourn.invocation.options import (
    AppLogFormatOption,
    AppLogs,
    AsJson,
    LogFormatOption,
    Quiet,
    Sources,
    Spans,
    TableColumns,
    Where,
    WorkersOption,
    column_of,
    workers_of,
)
from sojourn.invocation.progress import doing, instant
from sojourn.invocation.reading import requests_of

if TYPE_CHECKING:
    from sojourn.sources.open_requests import OpenedRequests

LEAD = timedelta(minutes=5)
"""Read from this long before ``--since``: earlier requests may still be in the queue."""


def movie(
    sources: Sources,
    out: Annotated[
        Path, typer.Option("--out", metavar="F", help="The file to write: .html, .gif, or .png for one instant.")
    ],
    spans: Spans = None,
    app_log: AppLogs = None,
    by: Annotated[
        str | None,
        typer.Option(
            "--by",
            metavar="COLUMN",
            help="One scene for each value. Default: service where the source is a run's folder.",
        ),
    ] = None,
    each: Annotated[bool, typer.Option("--each", help="One scene for each SOURCE.")] = False,
    only: Annotated[
        list[str] | None,
        typer.Option("--scene", metavar="NAME", help="Only this scene of --by or --each. Repeatable, in this order."),
    ] = None,
    backends: Annotated[
        list[str] | None, typer.Option("--backend", metavar="ADDRESS", help="Only this backend. Repeatable.")
    ] = None,
    workers: WorkersOption = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="T",
            help="Begin at T, including requests already in the system: ISO 8601 with its zone, unix seconds, 10m.",
        ),
    ] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="T", help="End at T.")] = None,
    where: Where = None,
    seconds: Annotated[
        float | None,
        typer.Option(metavar="S", min=0.5, max=600, help="Playing time.  [default: 30; a GIF: 15]", show_default=False),
    ] = None,
    speed: Annotated[
        float | None, typer.Option(min=0.001, max=100_000, metavar="X", help="Or: speed, as a multiple of real time.")
    ] = None,
    fps: Annotated[float, typer.Option(metavar="N", min=1, max=50, help="Frames a second of a GIF.")] = 12.5,
    width: Annotated[int, typer.Option(metavar="PIXELS", min=320, max=1920, help="Pixels of a GIF or PNG.")] = 800,
    at: Annotated[float | None, typer.Option(metavar="S", help="Instant of a PNG, in seconds of the film.")] = None,
    theme: Annotated[
        str | None,
        typer.Option(metavar="light|dark|auto", help="Background.  [default: a page: auto; a picture: light]"),
    ] = None,
    title: Annotated[str, typer.Option(metavar="TEXT", help="Title of the movie.")] = "The queue as it happened",
    log_format: LogFormatOption = None,
    app_log_format: AppLogFormatOption = None,
    table_columns: TableColumns = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Animate the queue: arrivals, waiting requests, workers.

    Writes one HTML page with play, pause and a slider (no network needed), an animated GIF, or one instant as PNG.
    """
    worker_counts, column = workers_of(workers), column_of(by) if by else None
    begin, end = instant(since), instant(until)
    if at is not None and out.suffix.lower() != ".png":
        raise typer.BadParameter("an instant is written as .png only", param_hint="--at")
    if seconds and speed:
        raise typer.BadParameter("use either --seconds or --speed", param_hint="--speed")
    from sojourn.model.frame import apart_of  # noqa: PLC0415 - loads Polars
    from sojourn.movie.write import film_of_rows, movie_section, suffix_of, write_film  # noqa: PLC0415 - loads Polars

    suffix_of(out)
    earlier = (begin - LEAD).isoformat() if begin else None
    if column is None and not each and all(Path(source).is_dir() for source in sources):
        column = "service"  # the cases of runs
    columns = (column,) if column else ()

    def read(paths: list[str]) -> OpenedRequests:
        return requests_of(
            paths, log_format=log_format, table_columns=table_columns, spans=spans, app_log=app_log,
            app_log_format=app_log_format,
            since=earlier, until=_text(end), where=where, columns=columns,
            quiet=quiet,
        )  # fmt: skip

    queues = {name: read([source]) for name, source in _titles(sources).items()} if each else {"": read(sources)}
    with doing(quiet) as say:
        say("drawing")
        film = film_of_rows(
            {name: result.rows for name, result in queues.items()}, title=title, by=column, workers=worker_counts,
            only=only or (), backends=backends or (), since=begin, until=end,
            notes=apart_of({name: result.records for name, result in queues.items()}),
        )  # fmt: skip
        write_film(film, out, seconds=seconds, speed=speed, theme=theme, fps=fps, width=width, at=at)
    if as_json:
        print_json({"out": os.fspath(out), **film.to_dict()})
        return
    from sojourn.present.terminal import show  # noqa: PLC0415

    show(movie_section(film, out))


def _titles(sources: list[str]) -> dict[str, str]:
    """Return scene title -> source: the file's own name where these are distinct."""
    short = {source: Path(source).name if "://" not in source else source for source in sources}
    same = len(set(short.values())) < len(short)
    return {source if same else name or source: source for source, name in short.items()}


def _text(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None
