"""``sojourn goodput``: how much work was done for clients that had already disconnected?

Measure the time workers were held by requests that nginx (504) or the client (499) had given up on.
"""

from __future__ import annotations

from typing import Annotated

import typer

from sojourn.invocation.answer import answer
from sojourn.invocation.options import (
    AsJson,
    LogFormatOption,
    Quiet,
    Since,
    Sources,
    Spans,
    SplitBy,
    Until,
    Where,
    column_of,
)
from sojourn.invocation.reading import requests_of


def goodput(
    sources: Sources,
    spans: Spans = None,
    app_log: Annotated[
        list[str] | None,
        typer.Option(
            "--app-log",
            metavar="FILE",
            help="The app's own log: JSON lines with request_id and service_time (s). Repeatable.",
        ),
    ] = None,
    by: SplitBy = "route",
    since: Since = None,
    until: Until = None,
    where: Where = None,
    log_format: LogFormatOption = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Measure work done for clients that had already disconnected, and retry storms.

    Work: the time that workers were held by requests that nginx (504) or the client (499) had given up on. Only the app
    knows this time: give its spans, or its own log.
    """
    columns = (column_of(by), "remote_addr", "method", "uri")
    requests = requests_of(
        sources, spans=spans, since=since, until=until, where=where, columns=columns, log_format=log_format, quiet=quiet
    )
    from sojourn.analyses.audit.reading import doubts_of  # noqa: PLC0415 - Polars takes its time to load
    from sojourn.analyses.goodput.run import goodput as run  # noqa: PLC0415 - Polars takes its time to load

    answer(run(requests, by=by, app_log=app_log or ()), as_json=as_json, doubts=doubts_of(requests))
