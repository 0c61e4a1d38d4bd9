"""``sojourn split``: slow code, or a queue?

Measure, per request, the time from nginx building the upstream request (the stamp) to the app's start: the queueing
delay; and from the app's start to its response headers: the service time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from sojourn.invocation.answer import print_json
from sojourn.invocation.completion import beginning_of_list
from sojourn.invocation.options import (
    AppLogFormatOption,
    AppLogs,
    AsJson,
    CapturesOption,
    LogFormatOption,
    Quiet,
    Since,
    Sources,
    Spans,
    TableColumns,
    Until,
    Where,
)
from sojourn.invocation.reading import nothing, read_options, warn
from sojourn.model.errors import SojournError
from sojourn.model.groups import DEFAULT_GROUPS, GROUPS
from sojourn.model.verdict import SLO
from sojourn.present.files import written_whole

if TYPE_CHECKING:
    from sojourn.analyses.split.result import SplitResult
    from sojourn.present.section import Section
    from sojourn.readers.inputs import SourcesLike


def split(
    sources: Sources,
    spans: Spans = None,
    app_log: AppLogs = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="|".join(GROUPS),
            help="Group by this column. Repeatable. Default: route and upstream.",
            autocompletion=beginning_of_list(GROUPS),
        ),
    ] = None,
    since: Since = None,
    until: Until = None,
    where: Where = None,
    slo: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0, help="A p99 below this, with little queueing, is healthy."),
    ] = SLO,
    captures: CapturesOption = None,
    nginx: Annotated[
        Path | None,
        typer.Option("--nginx", metavar="CONF", help="nginx's configuration: the verdict names what delays requests."),
    ] = None,
    html: Annotated[Path | None, typer.Option(metavar="F", help="Write a report, one file, no network needed.")] = None,
    parquet: Annotated[Path | None, typer.Option(metavar="F", help="Write every request with its components.")] = None,
    rejects: Annotated[
        Path | None,
        typer.Option(metavar="F", help="Write every refused line with its reason, as JSON lines."),
    ] = None,
    log_format: LogFormatOption = None,
    app_log_format: AppLogFormatOption = None,
    table_columns: TableColumns = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Split response time into queueing delay and service time.

    From the stamp nginx sent to the app's own start: queueing delay. From there to the response headers: service time.
    """
    groups = [name for value in by or () for name in value.split(",")] or list(DEFAULT_GROUPS)
    for name in groups:
        if name not in GROUPS:
            raise typer.BadParameter(f"{name!r} is not one of {', '.join(GROUPS)}", param_hint="--by")
    with read_options(since, until, where, quiet) as options, _writer(rejects) as refused:
        from sojourn.analyses.split.run import split as run  # noqa: PLC0415 - Polars and DuckDB take their time to load
        from sojourn.sources.log_files import with_app_log_format, with_formats  # noqa: PLC0415

        result = run(
            with_formats(sources, log_format, table_columns), spans=spans or (),
            app_log=with_app_log_format(app_log or (), app_log_format), by=groups, slo=slo,
            all_columns=parquet is not None, captures=captures or (), nginx=nginx,
            rejects_to=refused, **options,
        )  # fmt: skip
    if parquet is not None:
        result.write_parquet(parquet)
    if html is not None:
        from sojourn.analyses.split.page import write_split_page  # noqa: PLC0415

        write_split_page(result, html, _wire(result))
    if as_json:
        print_json(result.to_dict())
    elif result.requests:
        from rich.console import Console  # noqa: PLC0415

        from sojourn.analyses.split.table import split_table  # noqa: PLC0415

        Console().print(split_table(result))
        if result.wire is not None:
            from sojourn.analyses.pcap.summary_section import split_wire_section  # noqa: PLC0415
            from sojourn.present.terminal import rendered  # noqa: PLC0415

            Console().print("", rendered(split_wire_section(result.wire)), sep="\n")
    if not result.requests:
        raise SojournError(nothing(result.records))


def read_split(
    sources: SourcesLike,
    *,
    log_format: str | None = None,
    table_columns: Sequence[str] | None = None,
    spans: list[str] | None = None,
    app_log: list[str] | None = None,
    app_log_format: str | None = None,
    since: str | None = None,
    until: str | None = None,
    where: list[str] | None = None,
    workers: int | Mapping[str, int] | None = None,
    columns: Sequence[str] | None = (),
    by: Sequence[str] = (),
    slo: float = SLO,
    quiet: bool = False,
) -> SplitResult:
    """Split the requests of a command's sources; arguments as the options of ``split``, else as of ``sojourn.split``.

    With ``columns=None`` no row is fetched from a store.

    Raises:
        SojournError: a source cannot be read, or no request is left.
        typer.BadParameter: an option has an invalid value.
    """
    read = () if columns is None else ("request_id", *columns)
    with read_options(since, until, where, quiet) as options:
        from sojourn.analyses.split.run import split as run  # noqa: PLC0415 - Polars and DuckDB take their time to load
        from sojourn.sources.log_files import with_app_log_format, with_formats  # noqa: PLC0415

        app_logs = with_app_log_format(app_log or (), app_log_format)
        logs = with_formats(sources, log_format, table_columns)
        result = run(
            logs, spans=spans or (), app_log=app_logs, by=by, slo=slo, columns=read, workers=workers, **options
        )
    if not result.requests:
        raise SojournError(nothing(result.records))
    warn(result.records)
    return result


def _wire(result: SplitResult) -> list[Section]:
    """Return the section of the captures, for the report; empty without a capture."""
    if result.wire is None:
        return []
    from sojourn.analyses.pcap.section import wire_section  # noqa: PLC0415

    return [wire_section(result.wire)]


@contextlib.contextmanager
def _writer(path: Path | None) -> Iterator[TextIO | None]:
    """Open a file that replaces ``path`` if the block succeeds; yield None without a path."""
    if path is None:
        yield None
        return
    with written_whole(path) as partial, partial.open("w", encoding="utf-8") as out:
        yield out
