"""``sojourn serve``: explore the requests of a source on a local page.

Measures the same as ``split``, ``depth`` and ``blame``, for the requests that are selected on the page.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from sojourn.invocation.options import (
    AppLogFormatOption,
    AppLogs,
    CapturesOption,
    LogFormatOption,
    Quiet,
    Since,
    Sources,
    Spans,
    TableColumns,
    Until,
    WorkersOption,
    workers_of,
)
from sojourn.invocation.reading import requests_of
from sojourn.model.errors import SojournError
from sojourn.model.extras import missing_package, spec_of

PACKAGES = ("altair", "numba", "starlette", "uvicorn", "vl_convert")
"""Modules of the extra ``serve``."""
COLUMNS = ("remote_addr", "connection")
"""Read besides what the components need: a replay follows clients by them."""


def serve(
    sources: Sources,
    port: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, max=65535, help="Port on 127.0.0.1.  [default: a free one]", show_default=False
        ),
    ] = 0,
    follow: Annotated[
        bool, typer.Option("--follow", help="Follow logs that are being written: the requests of the last hour.")
    ] = False,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    spans: Spans = None,
    app_log: AppLogs = None,
    captures: CapturesOption = None,
    workers: WorkersOption = None,
    since: Since = None,
    until: Until = None,
    log_format: LogFormatOption = None,
    app_log_format: AppLogFormatOption = None,
    table_columns: TableColumns = None,
    quiet: Quiet = False,
) -> None:
    """Explore the requests of a source on a local page.

    The first line on standard output is the address of the page, with the token that it needs. Ctrl-C ends.
    """
    counts = workers_of(workers)
    for package in PACKAGES:
        if spec_of(package) is None:
            raise SojournError(missing_package(package, "sojourn serve", "serve"))
    if follow and (spans or app_log or captures or since or until):
        raise typer.BadParameter(
            "the last hour of logs is followed, without --spans, --app-log, --capture, --since and --until",
            param_hint="--follow",
        )
    reading = {
        "--spans": spans, "--app-log": app_log, "--app-log-format": app_log_format, "--log-format": log_format,
        "--columns": table_columns,
    }  # fmt: skip
    words = (word for name, value in reading.items() for each in _listed(value) for word in (name, each))
    of_workers = (word for each in _listed(workers) for word in ("--workers", each))

    def say(address: str) -> None:
        sys.stdout.write(f"{address}\n")
        sys.stdout.flush()
        if open_page:
            typer.launch(address)

    from sojourn.analyses.contrast.run import columns_to_read  # noqa: PLC0415 - Polars takes its time to load
    from sojourn.analyses.contrast.selection import Selection  # noqa: PLC0415
    from sojourn.analyses.pcap.log_join import READ  # noqa: PLC0415
    from sojourn.serve.further_columns import further_columns  # noqa: PLC0415
    from sojourn.serve.view import Options  # noqa: PLC0415

    further = () if follow else further_columns(sources)
    options = Options(tuple(sources), tuple(words), tuple(of_workers), further)
    if follow:
        from sojourn.serve.server import follow_logs  # noqa: PLC0415
        from sojourn.sources.log_files import format_of_text  # noqa: PLC0415

        follow_logs(options, port, say, workers=counts, form=format_of_text(log_format) if log_format else None)
        return
    requests = requests_of(
        sources,
        workers=counts,
        spans=spans,
        app_log=app_log,
        app_log_format=app_log_format,
        since=since,
        until=until,
        columns=(*COLUMNS, *columns_to_read(further, Selection()), *(READ if captures else ())),
        log_format=log_format,
        table_columns=table_columns,
        quiet=quiet,
    )
    from sojourn.serve.server import serve_page  # noqa: PLC0415
    from sojourn.serve.session import Session, Sessions  # noqa: PLC0415

    session = Session.of(requests, options, counts)
    if captures:
        from sojourn.analyses.pcap.run import pcap  # noqa: PLC0415

        session.wire = pcap(captures, log=requests)
    sessions = Sessions(options)
    sessions.replace(session)
    serve_page(sessions, port, say)


def _listed(value: str | Sequence[str] | None) -> Sequence[str]:
    """Return the values of an option."""
    return [value] if isinstance(value, str) else value or ()
