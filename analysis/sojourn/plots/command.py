"""``sojourn plot``: one chart as a file, and its finding in a sentence.

Measure the figures of the analysis that the chart belongs to.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import typer

from sojourn.analyses import report_columns
from sojourn.analyses.split.command import read_split
from sojourn.invocation.answer import print_json
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
    Where,
    WorkersOption,
    column_of,
    workers_of,
)
from sojourn.invocation.progress import doing
from sojourn.model.errors import SojournError
from sojourn.model.groups import GROUPS
from sojourn.model.verdict import SLO
from sojourn.plots.kinds import CONCURRENCY, KINDS, OF, SPLIT, Kind

WIDTHS = {"min": 100, "max": 8_000}


def _kinds(incomplete: str) -> list[tuple[str, str]]:
    """Return the kinds that begin with the text, each with its description for shells that show one."""
    return [(name, kind.about) for name, kind in KINDS.items() if name.startswith(incomplete)]


def plot(
    kind: Annotated[
        str,
        typer.Argument(metavar="KIND", help=f"One of: {', '.join(KINDS)}.", autocompletion=_kinds),
    ],
    sources: Sources,
    out: Annotated[
        list[Path] | None,
        typer.Option("--out", metavar="F", help="Write this file: .svg, .png, .pdf, or .json (Vega-Lite). Repeatable."),
    ] = None,
    spans: Spans = None,
    app_log: AppLogs = None,
    by: Annotated[
        str,
        typer.Option(
            "--by",
            metavar="COLUMN",
            help="Group, or name victims and culprits, by this column of the log. ridgeline: also concurrency.",
            autocompletion=beginning((*COLUMNS, CONCURRENCY)),
        ),
    ] = "route",
    of: Annotated[str, typer.Option("--of", metavar="|".join(OF), help="Draw a heatmap of this time.")] = "response",
    workers: WorkersOption = None,
    slo: Annotated[float, typer.Option(metavar="SECONDS", min=0, help="Objective for p99 (capacity).")] = SLO,
    since: Since = None,
    until: Until = None,
    where: Where = None,
    title: Annotated[str | None, typer.Option(metavar="TEXT", help="Above the chart.")] = None,
    theme: Annotated[str, typer.Option(metavar="light|dark", help="Draw dark on white, or light on black.")] = "light",
    width: Annotated[
        int | None,
        typer.Option(metavar="PIXELS", help="Width between the axes.  [default: 640]", show_default=False, **WIDTHS),
    ] = None,
    height: Annotated[
        int | None,
        typer.Option(
            metavar="PIXELS",
            help="Height between the axes.  [default: that of the chart]",
            show_default=False,
            **WIDTHS,
        ),
    ] = None,
    scale: Annotated[
        float, typer.Option(metavar="X", min=0.5, max=10, help="Pixels of a PNG per pixel of the chart.")
    ] = 2.0,
    log_format: LogFormatOption = None,
    app_log_format: AppLogFormatOption = None,
    table_columns: TableColumns = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Draw one chart into a file, and print its finding.

    The page of the chart's analysis defines the figures; docs/reference/plot.md has a table of the kinds.
    """
    chosen, name = _kind(kind)
    _checked(out, as_json, theme, of, scale)
    counts = workers_of(workers)
    if not (by == CONCURRENCY and chosen.key == "ridgeline"):
        column_of(by)
    columns, groups = _columns_and_groups(chosen, by)
    result = read_split(
        sources, log_format=log_format, table_columns=table_columns, spans=spans, app_log=app_log,
        app_log_format=app_log_format,
        since=since, until=until, where=where, columns=columns, by=groups,
        quiet=quiet,
    )  # fmt: skip
    from sojourn.plots.files import save  # noqa: PLC0415 - html and programs that draw
    from sojourn.plots.pictures import picture  # noqa: PLC0415 - Polars takes its time to load
    from sojourn.present.drawing import specification, tables_of  # noqa: PLC0415

    with doing(quiet) as say:
        say("drawing")
        drawn = picture(result, name, by=by, of=of, workers=counts, slo=slo)
        # A file is read without its caption: the chart itself says what is inferred.
        title = drawn.title if title is None and drawn.title.endswith("inferred)") else title
        for path in out or ():
            save(drawn, path, theme=theme, width=width, height=height, scale=scale, title=title)
    if as_json:
        values = {
            "kind": name, "title": drawn.title, "caption": drawn.caption, "reading": drawn.reading,
            "files": [str(path) for path in out or ()], "data": tables_of(specification(drawn.chart())),
        }  # fmt: skip
        print_json(values)
        return
    from rich.console import Console  # noqa: PLC0415

    Console(highlight=False, markup=False, emoji=False).print(drawn.reading)


def _kind(kind: str) -> tuple[Kind, str]:
    """Return the kind of that name, written with - or _.

    Raises:
        typer.BadParameter: the kind is unknown.
    """
    name = kind.replace("-", "_")
    if name in KINDS:
        return KINDS[name], name
    near = get_close_matches(name, KINDS, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise typer.BadParameter(f"{kind!r} is not a chart; {hint}Choose from {', '.join(KINDS)}", param_hint="KIND")


def _checked(out: Sequence[Path] | None, as_json: bool, theme: str, of: str, scale: float) -> None:
    """Check the options before any source is read."""
    if not out and not as_json:
        raise typer.BadParameter("name the file to write, or give --json", param_hint="--out")
    if theme not in ("light", "dark"):
        raise typer.BadParameter(f"{theme!r} is not light or dark", param_hint="--theme")
    if of not in OF:
        raise typer.BadParameter(f"{of!r} is not one of {', '.join(OF)}", param_hint="--of")
    from sojourn.plots.files import writer  # noqa: PLC0415

    for path in out or ():
        try:
            writer(path, scale)
        except SojournError as error:
            raise typer.BadParameter(str(error), param_hint="--out") from None


def _columns_and_groups(kind: Kind, by: str) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """Return the columns that ``read_split`` reads and groups by; None for charts that need no rows of a store."""
    group = by if kind.by and by != CONCURRENCY else "route"
    if kind.section == SPLIT and group in GROUPS:
        return None, (group,)
    return (*(report_columns() if kind.section != SPLIT else ()), group), ()
