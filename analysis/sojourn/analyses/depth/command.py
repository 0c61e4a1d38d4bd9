"""``sojourn depth``: how deep was the queue, and how busy the workers?

Measure how many requests waited and were in service at each instant, from the instant nginx turned to the backend until
the worker was free again.
"""

from __future__ import annotations

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
    TableColumns,
    Until,
    WhereAnalysed,
    WorkersOption,
    workers_of,
)
from sojourn.invocation.reading import requests_of


def depth(
    sources: Sources,
    spans: Spans = None,
    app_log: AppLogs = None,
    workers: WorkersOption = None,
    since: Since = None,
    until: Until = None,
    where: WhereAnalysed = None,
    log_format: LogFormatOption = None,
    app_log_format: AppLogFormatOption = None,
    table_columns: TableColumns = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Show how many requests waited and how busy the workers were.

    A request waits from the instant nginx turned to the backend to the app's start, and is in service until its worker
    is free again: at the end of its span if it has one, otherwise at its response headers.
    """
    counts = workers_of(workers)
    requests = requests_of(
        sources,
        workers=counts,
        spans=spans,
        app_log=app_log,
        app_log_format=app_log_format,
        since=since,
        until=until,
        where=where,
        log_format=log_format,
        table_columns=table_columns,
        quiet=quiet,
    )
    from sojourn.analyses.audit.reading import doubts_of  # noqa: PLC0415 - Polars takes its time to load
    from sojourn.analyses.depth.run import depth as run  # noqa: PLC0415 - Polars takes its time to load

    answer(run(requests, workers=counts), as_json=as_json, doubts=doubts_of(requests))
