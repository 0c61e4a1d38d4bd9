"""``sojourn timeline``: what each worker and each waiting request did, for ui.perfetto.dev and ``trace_processor``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sojourn.invocation.options import (
    AppLogFormatOption,
    AppLogs,
    LogFormatOption,
    Quiet,
    Since,
    Sources,
    Spans,
    TableColumns,
    Until,
    WhereAnalysed,
    WorkersOption,
    workers_of,
)
from sojourn.invocation.progress import doing
from sojourn.invocation.reading import requests_of
from sojourn.model.formatting import printable

if TYPE_CHECKING:
    from sojourn.perfetto.write import WrittenTimeline

STANDARD_OUTPUT = "-"


def timeline(
    sources: Sources,
    out: Annotated[
        str, typer.Option("--out", metavar="F", help="The file to write, F.pftrace; - for standard output.")
    ],
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is no trace of sojourn.")] = False,
    spans: Spans = None,
    app_log: AppLogs = None,
    workers: WorkersOption = None,
    since: Since = None,
    until: Until = None,
    where: WhereAnalysed = None,
    log_format: LogFormatOption = None,
    app_log_format: AppLogFormatOption = None,
    table_columns: TableColumns = None,
    quiet: Quiet = False,
) -> None:
    """Write the timeline of workers and waiting requests as a trace for Perfetto.

    The trace has a lane for each worker and for each waiting request, counters, and arrows from the request that held
    a worker to the request that waited for it. Open it at ui.perfetto.dev.
    """
    counts = workers_of(workers)
    if out == STANDARD_OUTPUT:
        if sys.stdout.isatty():
            raise typer.BadParameter("a trace is not text: name a file, or redirect the output", param_hint="--out")
    elif not force:
        _refuse_other_files(Path(out))
    requests = requests_of(
        sources, log_format=log_format, table_columns=table_columns, spans=spans, app_log=app_log,
        app_log_format=app_log_format, since=since, until=until, where=where, workers=counts, quiet=quiet,
    )  # fmt: skip
    from sojourn.perfetto.run import timeline_to, write_timeline  # noqa: PLC0415 - Polars takes its time to load

    with doing(quiet) as say:
        say("writing")
        if out == STANDARD_OUTPUT:
            written = timeline_to(sys.stdout.buffer, requests, workers=counts)
        else:
            written = write_timeline(requests, out, workers=counts)
    _report(written, out)


def _refuse_other_files(path: Path) -> None:
    """Check that no file is replaced that may be something else.

    Raises:
        typer.BadParameter: there is one.
    """
    if not path.is_file() or not path.stat().st_size:
        return
    from sojourn.perfetto.write import is_trace  # noqa: PLC0415 - Polars takes its time to load

    if not is_trace(path):
        raise typer.BadParameter(
            f"{printable(path, 300)} exists and is no trace of sojourn: name another file, or replace it with --force",
            param_hint="--out",
        )


def _report(written: WrittenTimeline, out: str) -> None:
    """Print what the trace contains, on stderr if the trace is on standard output."""
    from sojourn.model.formatting import counted, duration, iso  # noqa: PLC0415

    name = "the trace" if out == STANDARD_OUTPUT else printable(out, 300)
    typer.echo(
        f"{name} shows {duration(written.seconds)} from {iso(written.begin)} on: "
        f"{counted(written.requests, 'request')}, {counted(written.slices, 'slice')}, "
        f"{counted(written.arrows, 'arrow')}, {counted(written.tracks, 'track')}, {written.size / 1e6:,.1f} MB. "
        "Open it at ui.perfetto.dev.",
        err=out == STANDARD_OUTPUT,
    )
    for note in written.notes:
        typer.echo(f"NOTE  {printable(note, 600)}.", err=True)
