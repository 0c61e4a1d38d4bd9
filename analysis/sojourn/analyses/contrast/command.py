"""``sojourn contrast``: what distinguishes the selected requests, and which requests held the workers meanwhile?

Measure the share of each value among the selected requests and among the rest, and the worker seconds that are charged
to each value while the selected requests waited.
"""

from __future__ import annotations

from typing import Annotated

import typer

from sojourn.invocation.answer import answer
from sojourn.invocation.completion import COLUMNS, beginning
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
    WorkersOption,
    column_of,
    conditions_of,
    workers_of,
)
from sojourn.invocation.progress import instant
from sojourn.invocation.reading import requests_of

OF = ("response_time", "queueing_delay", "service_time")


def contrast(
    sources: Sources,
    begin: Annotated[
        str | None,
        typer.Option("--begin", metavar="T", help="Select requests that arrived at T or later; T is as for --since."),
    ] = None,
    end: Annotated[
        str | None, typer.Option("--end", metavar="T", help="Select requests that arrived before T.")
    ] = None,
    above: Annotated[
        float | None,
        typer.Option("--above", metavar="SECONDS", help="Select requests with at least this time of --of."),
    ] = None,
    below: Annotated[
        float | None, typer.Option("--below", metavar="SECONDS", help="Select requests with less than this time.")
    ] = None,
    select: Annotated[
        list[str] | None,
        typer.Option(
            "--select",
            metavar="COLUMN=VALUE",
            help="Select requests with this value. Repeatable: of one column any value, of several columns all.",
        ),
    ] = None,
    of: Annotated[
        str,
        typer.Option(
            metavar="response_time|queueing_delay|service_time",
            help="The time that --above and --below are of.",
            autocompletion=beginning(OF),
        ),
    ] = "response_time",
    column: Annotated[
        list[str] | None,
        typer.Option(
            "--column",
            metavar="NAME",
            help="Compare this column, too: a key that you added to the log, such as tenant. Repeatable.",
            autocompletion=beginning(COLUMNS),
        ),
    ] = None,
    workers: WorkersOption = None,
    spans: Spans = None,
    app_log: AppLogs = None,
    since: Since = None,
    until: Until = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where",
            metavar="COLUMN=VALUE",
            help="Compare only requests with this value; all requests hold workers. Repeatable.",
        ),
    ] = None,
    log_format: LogFormatOption = None,
    app_log_format: AppLogFormatOption = None,
    table_columns: TableColumns = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Show what distinguishes the selected requests from the rest, and which requests held the workers meanwhile.

    Without a selection, the slow requests of the incident are compared, if the log has one.
    """
    counts, more = workers_of(workers), [column_of(name, "--column") for name in column or ()]
    selected: dict[str, list[object]] = {}
    for text in select or ():
        for name, value in conditions_of([text], "--select").items():
            selected.setdefault(column_of(name, "--select"), []).append(value)
    first, last = instant(begin, "--begin"), instant(end, "--end")
    if of not in OF:
        raise typer.BadParameter(f"{of!r} is not one of {', '.join(OF)}", param_hint="--of")
    from sojourn.analyses.contrast.run import columns_to_read  # noqa: PLC0415 - Polars takes its time to load
    from sojourn.analyses.contrast.run import contrast as run  # noqa: PLC0415 - numba takes its time to load
    from sojourn.analyses.contrast.selection import Selection  # noqa: PLC0415

    selection = Selection.of_options(first, last, above, below, of, selected)
    requests = requests_of(
        sources,
        workers=counts,
        spans=spans,
        app_log=app_log,
        app_log_format=app_log_format,
        since=since,
        until=until,
        where=where,
        columns=columns_to_read(more, selection),
        log_format=log_format,
        table_columns=table_columns,
        quiet=quiet,
    )
    from sojourn.analyses.audit.reading import doubts_of  # noqa: PLC0415

    result = run(
        requests, begin=first, end=last, above=above, below=below, select=selected, of=of, column=more, workers=counts
    )
    answer(result, as_json=as_json, doubts=doubts_of(requests))
