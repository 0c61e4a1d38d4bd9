"""``sojourn compare``: what changed, and which component changed it?

Measure the split of either side, and the difference of each component's mean, over all requests and the slowest 1 %.
"""

from __future__ import annotations

from datetime import UTC
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
    Spans,
    SplitBy,
    TableColumns,
    Until,
    Where,
    column_of,
)
from sojourn.invocation.progress import instant
from sojourn.invocation.reading import requests_of
from sojourn.model.dsn import hidden
from sojourn.model.errors import SojournError


def compare(
    sources: Annotated[
        list[str],
        typer.Argument(metavar="A B", help="Two sources, as every command takes them; or one, with --at."),
    ],
    at: Annotated[
        str | None,
        typer.Option(
            metavar="T", help="One source: before T against from T on. ISO 8601 with its zone, unix seconds, 10m."
        ),
    ] = None,
    by: SplitBy = "route",
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
    """Compare two windows or runs, and test each change for significance."""
    column = column_of(by)
    middle = instant(at, "--at")
    if middle is None and len(sources) != 2:
        raise typer.BadParameter(f"give two sources, or one with --at; not {len(sources)}", param_hint="A B")
    if middle is not None and (len(sources) != 1 or sources == ["-"]):
        raise typer.BadParameter("give one source that can be read twice (a file, not -)", param_hint="--at")
    from sojourn.analyses.compare.run import compare as run  # noqa: PLC0415 - Polars takes its time to load

    one, other = (sources * 2)[:2]
    text = None if middle is None else middle.astimezone(UTC).isoformat().replace("+00:00", "Z")
    names = (hidden(one), hidden(other)) if text is None else (f"before {text}", f"from {text}")
    sides = []
    for name, source, begin, end in ((names[0], one, since, text or until), (names[1], other, text or since, until)):
        try:
            side = requests_of(
                [source], log_format=log_format, table_columns=table_columns, spans=spans, app_log=app_log,
                app_log_format=app_log_format,
                since=begin, until=end, where=where, columns=(column,),
                quiet=quiet,
            )  # fmt: skip
        except SojournError as error:
            raise SojournError(f"{name}: {error}") from None
        sides.append(side)
    answer(run(sides[0], sides[1], by=column, names=names), as_json=as_json)
