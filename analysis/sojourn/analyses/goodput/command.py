"""``sojourn goodput``: how much work was done for clients that had already disconnected?

Measure the time workers were held by requests that nginx (504) or the client (499) had given up on.
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
    SplitBy,
    TableColumns,
    Until,
    Where,
    column_of,
)
from sojourn.invocation.reading import requests_of


def goodput(
    sources: Sources,
    spans: Spans = None,
    app_log: AppLogs = None,
    by: SplitBy = "route",
    since: Since = None,
    until: Until = None,
    where: Where = None,
    log_format: LogFormatOption = None,
    app_log_format: AppLogFormatOption = None,
    table_columns: TableColumns = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Measure work done for clients that had already disconnected, and retry storms.

    Work: the time that workers were held by requests that nginx (504) or the client (499) had given up on. Only the app
    knows this time: give its spans, or its own log.
    """
    columns = (column_of(by), "remote_addr", "method", "uri")
    requests = requests_of(
        sources,
        spans=spans,
        since=since,
        until=until,
        where=where,
        columns=columns,
        log_format=log_format,
        table_columns=table_columns,
        quiet=quiet,
    )
    from sojourn.analyses.audit.reading import doubts_of  # noqa: PLC0415 - Polars takes its time to load
    from sojourn.analyses.goodput.run import goodput as run  # noqa: PLC0415 - Polars takes its time to load
    from sojourn.sources.log_files import with_app_log_format  # noqa: PLC0415

    logs = with_app_log_format(app_log or (), app_log_format)
    answer(run(requests, by=by, app_log=logs), as_json=as_json, doubts=doubts_of(requests))
