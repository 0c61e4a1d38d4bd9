"""``sojourn blame``: which requests caused the wait?

Measure the queueing delay of each request (from the instant nginx turned to the backend to the app's start), and charge
every instant of it to the requests in service, to the balancer, or to dispatch.
"""

from __future__ import annotations

from typing import Annotated

import typer

from sojourn.invocation.answer import answer
from sojourn.invocation.options import (
    AppLogFormatOption,
    AppLogs,
    AsJson,
    LogFormatOption,
    Quiet,
    Since,
    Sources,
    Spans,
    SplitBy,
    TableColumns,
    Until,
    WorkersOption,
    column_of,
    conditions_of,
    workers_of,
)
from sojourn.invocation.reading import requests_of


def blame(
    sources: Sources,
    spans: Spans = None,
    app_log: AppLogs = None,
    by: SplitBy = "route",
    culprit: Annotated[
        str | None,
        typer.Option("--culprit", metavar="COLUMN", help="Name the culprits by this column. Default: as --by."),
    ] = None,
    workers: WorkersOption = None,
    since: Since = None,
    until: Until = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where",
            metavar="COLUMN=VALUE",
            help="Count only the waits of requests with this value; all requests can be culprits. Repeatable.",
        ),
    ] = None,
    log_format: LogFormatOption = None,
    app_log_format: AppLogFormatOption = None,
    table_columns: TableColumns = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Show which routes or backends caused the queueing delay.

    The delay runs from the instant nginx turned to the backend to the app's start. Each instant is charged to dispatch
    if the request's own backend has a free worker, to imbalance if another backend of the upstream has one, and
    otherwise to the requests in service.
    """
    classes = (column_of(by, "--by"), column_of(culprit or by, "--culprit"))
    counts, conditions = workers_of(workers), conditions_of(where or [])
    # Conditions select victims, not rows: every request that held a worker is read.
    columns = (*classes, *(column_of(name, "--where") for name in conditions), "uri")
    requests = requests_of(
        sources,
        workers=counts,
        spans=spans,
        app_log=app_log,
        app_log_format=app_log_format,
        since=since,
        until=until,
        columns=columns,
        log_format=log_format,
        table_columns=table_columns,
        quiet=quiet,
    )
    from sojourn.analyses.audit.reading import doubts_of  # noqa: PLC0415 - Polars takes its time to load
    from sojourn.analyses.blame.run import blame as run  # noqa: PLC0415 - numba takes its time to load

    result = run(requests, by=by, culprit=culprit, workers=counts, where=conditions)
    answer(result, as_json=as_json, doubts=doubts_of(requests))
