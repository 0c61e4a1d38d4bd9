"""``sojourn serve``: explore the requests of a source on a local page.

Measures the same as ``split``, ``depth`` and ``blame``, for the requests that are selected on the page.
"""

from __future__ import annotations

import sys
from typing import Annotated

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
    WorkersOption,
    workers_of,
)
from sojourn.invocation.reading import requests_of
from sojourn.model.extras import needed_for


def serve(
    sources: Sources,
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="Port on 127.0.0.1.  [default: a free one]", show_default=False)
    ] = 0,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    spans: Spans = None,
    app_log: AppLogs = None,
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
    with needed_for("sojourn serve"):
        import starlette  # noqa: F401, PLC0415
        import uvicorn  # noqa: F401, PLC0415
    requests = requests_of(
        sources,
        workers=counts,
        spans=spans,
        app_log=app_log,
        app_log_format=app_log_format,
        since=since,
        until=until,
        log_format=log_format,
        table_columns=table_columns,
        quiet=quiet,
    )
    from sojourn.serve.server import serve_session  # noqa: PLC0415
    from sojourn.serve.session import Session  # noqa: PLC0415 - Polars takes its time to load

    def say(address: str) -> None:
        sys.stdout.write(f"{address}\n")
        sys.stdout.flush()
        if open_page:
            typer.launch(address)

    serve_session(Session.of(requests, sources, counts), port, say)
