"""The common options of analyses of requests, and how the requests are read."""

from __future__ import annotations

from typing import Annotated

import typer

from sojourn.invocation.completion import COLUMNS, beginning
from sojourn.invocation.progress import instant, pairs

Sources = Annotated[
    list[str],
    typer.Argument(
        metavar="SOURCE...",
        help="Log files (plain, .gz, .zst), globs, -, Parquet files, run folders, stores (chdb:///path, "
        "clickhouse://host/database).",
    ),
]
Spans = Annotated[
    list[str] | None, typer.Option("--spans", metavar="FILE", help="The app's spans, OTLP/JSON lines. Repeatable.")
]
AppLogs = Annotated[
    list[str] | None,
    typer.Option(
        "--app-log",
        metavar="FILE",
        help="The app server's own access log, joined by request id: service times without a middleware. Repeatable.",
    ),
]
AppLogFormatOption = Annotated[
    str | None,
    typer.Option(
        "--app-log-format",
        metavar="FORMAT",
        help="Format of the app logs: a text in the language of gunicorn, uWSGI, morgan, Tomcat or Jetty, JSON keys "
        "with such variables, or a name. Default: recognised by the lines.",
    ),
]
Since = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="T",
        help="Only requests that arrived at T or later: ISO 8601 with its zone, unix seconds, 10m.",
    ),
]
Until = Annotated[str | None, typer.Option("--until", metavar="T", help="Only requests that arrived before T.")]
Where = Annotated[
    list[str] | None,
    typer.Option("--where", metavar="COLUMN=VALUE", help="Only requests with this value. Repeatable."),
]
WhereAnalysed = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="COLUMN=VALUE",
        help="Analyse only requests with this value; all requests hold workers. Repeatable.",
    ),
]
LogFormatOption = Annotated[
    str | None,
    typer.Option(
        "--log-format",
        metavar="FORMAT",
        help="Format of the logs: a name (combined, haproxy, envoy, …), a text ($…, %…), nginx.conf:NAME, or units of "
        "a recognised format (latency=ns). Default: recognised by the lines.",
    ),
]
TableColumns = Annotated[
    list[str] | None,
    typer.Option(
        "--columns",
        metavar="ROLE=COLUMN[:UNIT],…",
        help="Roles of the columns of a table (CSV, TSV, Parquet): arrival, end, response, service, wait, status, "
        "backend, route, … Repeatable.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object instead of the table.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")]
WorkersOption = Annotated[
    list[str] | None,
    typer.Option(
        "--workers",
        metavar="N|BACKEND=N",
        help="Workers per backend, for all or for one. Repeatable. Default: read off the worker values.",
    ),
]
CapturesOption = Annotated[
    list[str] | None,
    typer.Option("--capture", metavar="FILE", help="Packets of the same requests (pcap, pcapng). Repeatable."),
]
SplitBy = Annotated[
    str,
    typer.Option(
        "--by",
        metavar="COLUMN",
        help="Group by this column of the log.",
        autocompletion=beginning(COLUMNS),
    ),
]


def conditions_of(where: list[str], option: str = "--where") -> dict[str, object]:
    """Return ``["status=504"]`` as column -> value, converted to the column's type.

    Args:
        where: the texts.
        option: the option they are of, for the error.

    Raises:
        typer.BadParameter: a value does not fit its column.
    """
    if not where:
        return {}
    import polars as pl  # noqa: PLC0415 - takes its time to load

    from sojourn.model.frame import INSTANT, SCHEMA  # noqa: PLC0415

    conditions: dict[str, object] = {}
    for column, text in pairs(where, option).items():
        dtype = SCHEMA.get(column)
        if dtype is not None and dtype.is_numeric():
            try:
                conditions[column] = float(text)
            except ValueError:
                raise typer.BadParameter(f"{column} must be a number", param_hint=option) from None
        elif dtype == INSTANT:
            conditions[column] = instant(text, option)
        elif dtype is not None and not isinstance(dtype, pl.String):
            raise typer.BadParameter(f"{column} cannot be selected by a value", param_hint=option)
        else:
            conditions[column] = text
    return conditions


def workers_of(texts: list[str] | None) -> int | dict[str, int] | None:
    """Return ``["2"]`` as 2, ``["10.0.0.1:80=2"]`` as a mapping, an empty list as None.

    Raises:
        typer.BadParameter: not whole numbers of at least 1, or both kinds.
    """
    if not texts:
        return None
    try:
        if len(texts) == 1 and "=" not in texts[0]:
            numbers = {"": int(texts[0])}
        else:
            numbers = {name: int(text) for name, text in (text.rsplit("=", 1) for text in texts)}
    except ValueError:
        raise typer.BadParameter("give N, or BACKEND=N for each of some backends", param_hint="--workers") from None
    if min(numbers.values()) < 1:
        raise typer.BadParameter("a backend has at least one worker", param_hint="--workers")
    return numbers.get("", numbers) if set(numbers) == {""} else numbers


def column_of(name: str, option: str = "--by") -> str:
    """Return a column to group by: canonical, or a key that a user added to the log.

    Raises:
        typer.BadParameter: it can be neither.
    """
    from sojourn.model.frame import SCHEMA, is_extra  # noqa: PLC0415

    if name in SCHEMA or is_extra(name):
        return name
    raise typer.BadParameter(f"{name!r} cannot be a column", param_hint=option)
