"""``sojourn laws``: does the queue behave as theory says?

Measures, per backend and upstream: arrivals, how long a worker was held, and the wait between.
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


def laws(
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
    """Compare the measured wait with the laws of queueing.

    Utilisation, burstiness, Erlang C, Pollaczek–Khinchine, Kingman and Allen–Cunneen; or the reason one does not apply.
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
    from sojourn.analyses.laws.run import laws as run  # noqa: PLC0415 - Polars takes its time to load

    answer(run(requests, workers=counts), as_json=as_json, doubts=doubts_of(requests))
