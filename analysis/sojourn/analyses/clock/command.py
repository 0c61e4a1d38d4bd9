"""``sojourn clock``: how far is each app's clock from nginx's, and how does it run?

Measures, per pair of proxy and backend, the offset of the app's clock from nginx's over time: bounded from above by the
way from nginx's stamp to the app's start, from below by the way from the app's answer to nginx's receipt of it.
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
    Where,
)
from sojourn.invocation.reading import requests_of


def clock(
    sources: Sources,
    spans: Spans = None,
    app_log: AppLogs = None,
    since: Since = None,
    until: Until = None,
    where: Where = None,
    log_format: LogFormatOption = None,
    app_log_format: AppLogFormatOption = None,
    table_columns: TableColumns = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Show how far each app's clock is from nginx's over time.

    Its offset, its drift, and when it was set.

    From nginx's stamp to the app's start: an upper bound. From the app's answer to its arrival at nginx: a lower bound.
    """
    requests = requests_of(
        sources,
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
    from sojourn.analyses.clock.run import clock as run  # noqa: PLC0415 - Polars takes its time to load

    answer(run(requests), as_json=as_json, doubts=doubts_of(requests))
