"""``sojourn infer``: how long did requests wait, by the log of a proxy alone?

Infer the instant at which a worker began each request, between the instant at which the proxy turned to the backend and
the instant at which the backend had answered.
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
    WorkersOption,
    workers_of,
)
from sojourn.invocation.reading import requests_of


def infer(
    sources: Sources,
    spans: Spans = None,
    app_log: AppLogs = None,
    workers: WorkersOption = None,
    since: Since = None,
    until: Until = None,
    where: Where = None,
    log_format: LogFormatOption = None,
    app_log_format: AppLogFormatOption = None,
    table_columns: TableColumns = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Infer the queueing delay from a plain log: no stamp, no middleware.

    For first-come-first-served backends, from the instants at which requests arrived and left. Other systems are
    recognised and refused, or get a lower bound.
    """
    counts = workers_of(workers)
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
    from sojourn.analyses.infer.run import infer as run  # noqa: PLC0415 - numba takes its time to load

    answer(run(requests, workers=counts), as_json=as_json, doubts=doubts_of(requests))
