"""``sojourn report``: all analyses of the same requests in one file.

Measures what ``split``, ``blame``, ``depth``, ``whatif``, ``goodput``, ``laws``, ``capacity`` and ``clock`` do, each
from and to the events it names.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sojourn.analyses.split.command import read_split
from sojourn.invocation.options import (
    AppLogFormatOption,
    AppLogs,
    CapturesOption,
    LogFormatOption,
    Quiet,
    Since,
    Sources,
    Spans,
    SplitBy,
    TableColumns,
    Until,
    WhereAnalysed,
    WorkersOption,
    column_of,
    workers_of,
)
from sojourn.invocation.progress import doing
from sojourn.model.formatting import printable
from sojourn.model.groups import DEFAULT_GROUPS
from sojourn.model.memory import MOST_PLACED
from sojourn.model.verdict import SLO

DEFAULT_PAGE = "report.html"

if TYPE_CHECKING:
    from sojourn.analyses.split.result import SplitResult
    from sojourn.present.page import Line


def report(
    sources: Sources,
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="F",
            help="The file to write: one page, no network needed.  [default: report.html]",
            show_default=False,
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Without --html: replace a report.html that is no report of sojourn.")
    ] = False,
    spans: Spans = None,
    app_log: AppLogs = None,
    by: SplitBy = "route",
    workers: WorkersOption = None,
    slo: Annotated[float, typer.Option(metavar="SECONDS", min=0, help="Objective for p99.")] = SLO,
    before: Annotated[
        list[str] | None,
        typer.Option(metavar="SOURCE", help="Requests from before a change, for comparison. Repeatable."),
    ] = None,
    captures: CapturesOption = None,
    since: Since = None,
    until: Until = None,
    where: WhereAnalysed = None,
    most: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            help="Requests that are placed in time; of more, those of the stretch with the most waiting.",
        ),
    ] = MOST_PLACED,
    log_format: LogFormatOption = None,
    app_log_format: AppLogFormatOption = None,
    table_columns: TableColumns = None,
    quiet: Quiet = False,
) -> None:
    """Write all analyses of the same requests on one HTML page.

    Without --html the page is report.html in this folder. An earlier report there is replaced, another file is not.
    """
    column, counts = column_of(by), workers_of(workers)
    page = html or _default_page(force)
    from sojourn.present.drawing_process import DrawingProcess  # noqa: PLC0415 - logging takes its time to load

    # Vega starts while the analyses are loaded and the requests are read.
    with DrawingProcess() as process:
        from sojourn.report.build import columns_of, write_analyses  # noqa: PLC0415
        from sojourn.report.short import in_short  # noqa: PLC0415
        from sojourn.sources.log_files import with_formats  # noqa: PLC0415

        packets = captures or []
        by_kind = with_formats(sources, log_format, table_columns)
        columns = columns_of(column, packets)
        result = read_split(
            by_kind, spans=spans, app_log=app_log, app_log_format=app_log_format,
            since=since, until=until, where=where, workers=counts, columns=columns,
            by=DEFAULT_GROUPS, slo=slo, quiet=quiet,
        )  # fmt: skip
        earlier = None
        if before:
            earlier = read_split(
                before, log_format=log_format, table_columns=table_columns, columns=columns, where=where, quiet=quiet
            )
        with doing(quiet) as say:
            sections = write_analyses(
                result, page, process=process, by=column, workers=counts, slo=slo, before=earlier, sources=by_kind,
                spans=spans or (), captures=packets, most=most, on_step=say,
            )  # fmt: skip
    _say(result, in_short(result, sections), page)


def _default_page(force: bool) -> Path:
    """Return the file that is written without ``--html``.

    Raises:
        typer.BadParameter: it exists, and is no report that may be replaced.
    """
    page = Path(DEFAULT_PAGE)
    if page.exists() and not force:
        from sojourn.present.page import is_page  # noqa: PLC0415 - templates take their time to load

        if not is_page(page):
            raise typer.BadParameter(
                f"{page} exists and is no report of sojourn: name another file with --html, or replace it with --force",
                param_hint="--html",
            )
    return page


def _say(result: SplitResult, lines: Sequence[Line], html: Path) -> None:
    """Print the beginning of the page on stdout."""
    from rich.console import Console  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    from sojourn.analyses.queue_source import gaps_of  # noqa: PLC0415 - Polars takes its time to load

    console = Console()
    verdict = Text(result.verdict.sentence, style="bold")
    failures = [Text(f"AUDIT  {printable(failure, 400)}", style="bold yellow") for failure in result.failed_checks]
    console.print(*([verdict, *failures] if result.lacks_times else [*failures, verdict]), sep="\n")
    for gap in () if result.lacks_times else gaps_of(result):
        console.print(Text(f"NOTE  {printable(gap, 600)}", style="yellow"))
    for line in lines:
        doubt = " (in doubt: see the page)" if line.doubtful else ""
        console.print(Text(f"{line.label}: ", style="bold"), Text(f"{printable(line.text, 900)}{doubt}"), sep="")
    console.print(Text(f"Full report: {printable(html, 300)}", style="dim"))
