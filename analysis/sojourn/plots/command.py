"""``sojourn plot``: one chart as a file, and its finding in a sentence.

Measure the figures of the analysis that the chart belongs to.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import typer

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
    Spans,
    TableColumns,
    Until,
    Where,
    WorkersOption,
    column_of,
    workers_of,
)
from sojourn.invocation.progress import doing
from sojourn.model.dsn import hidden
from sojourn.model.errors import ArgumentError, SojournError
from sojourn.model.formatting import counted, printable
from sojourn.model.verdict import SLO
from sojourn.plots.kinds import ABILITIES, CONCURRENCY, KINDS, OF, check_options

WIDTHS = {"min": 100, "max": 8_000}


def _kinds(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Return the kinds that begin with the text, each with its description for shells that show one.

    The first argument is a source, for which the shell offers files.
    """
    if not incomplete and not any(context.params.get(name) for name in ("sources", "kind")):
        return []
    return [(name, kind.about) for name, kind in KINDS.items() if name.startswith(incomplete)]


def plot(
    context: typer.Context,
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE...",
            help="Log files (plain, .gz, .zst), globs, -, Parquet files, run folders, stores (chdb:///path, "
            "clickhouse://host/database).",
            autocompletion=_kinds,
        ),
    ],
    kind: Annotated[str, typer.Argument(metavar="KIND", help=f"One of: {', '.join(KINDS)}.")],
    out: Annotated[
        list[Path] | None,
        typer.Option("--out", metavar="F", help="Write this file: .svg, .png, .pdf, or .json (Vega-Lite). Repeatable."),
    ] = None,
    spans: Spans = None,
    app_log: AppLogs = None,
    by: Annotated[
        str | None,
        typer.Option(
            "--by",
            metavar="COLUMN",
            help="Of a distribution: a panel for each value of this column. Else: group, or name victims and culprits, "
            "by it (default: route). ridgeline: also concurrency.",
            autocompletion=beginning((*COLUMNS, CONCURRENCY)),
        ),
    ] = None,
    of: Annotated[
        str | None,
        typer.Option(
            "--of",
            metavar="|".join(OF),
            help="Draw a heatmap of this time, or ccdf and percentiles of this time alone.",
            autocompletion=beginning(tuple(OF)),
        ),
    ] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(
            "--against", metavar="SOURCE", help="Draw this log, too: as a line, or in a panel of its own. Repeatable."
        ),
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(
            "--label",
            metavar="TEXT",
            help="Name of a log: the first of SOURCE, the next of each --against. Default: its file's.",
        ),
    ] = None,
    band: Annotated[bool, typer.Option("--band", help="Draw the 95 % confidence band of ccdf or percentiles.")] = False,
    xlim: Annotated[
        str | None,
        typer.Option(
            "--xlim",
            metavar="LOW,HIGH",
            help="Ends of the horizontal axis, in its unit or as instants; either may be left out (0.01,).",
        ),
    ] = None,
    ylim: Annotated[str | None, typer.Option("--ylim", metavar="LOW,HIGH", help="Ends of the vertical axis.")] = None,
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
    sources, name = _in_order(sources, kind)
    _checked(out, as_json, theme, scale)
    counts = workers_of(workers)
    if by is not None and not (by == CONCURRENCY and name == "ridgeline"):
        column_of(by)
    by = _applicable(context, name, by, of=of, band=band or None, logs=against or None)
    limits = {"xlim": _limits(xlim, "--xlim"), "ylim": _limits(ylim, "--ylim")}
    logs = _labelled(sources, against or [], label or [])
    from sojourn.model.frame import apart_of  # noqa: PLC0415
    from sojourn.plots.files import save  # noqa: PLC0415 - html and programs that draw
    from sojourn.plots.pictures import columns_of, picture  # noqa: PLC0415 - Polars takes its time to load
    from sojourn.present.drawing import specification, tables_of  # noqa: PLC0415

    columns = columns_of(KINDS[name], by)
    groups = () if columns is not None else ("route" if by in (None, CONCURRENCY) else by,)
    results = {
        title: read_split(
            log, log_format=log_format, table_columns=table_columns, spans=spans, app_log=app_log,
            app_log_format=app_log_format, since=since, until=until, where=where, columns=columns, by=groups,
            quiet=quiet,
        )
        for title, log in logs.items()
    }  # fmt: skip
    with doing(quiet) as say:
        say("drawing")
        requests = results if against else next(iter(results.values()))
        drawn = picture(requests, name, by=by, of=of, workers=counts, slo=slo, band=band, **limits)
        # A file is read without its caption: the chart itself says what is inferred.
        title = drawn.title if title is None and drawn.title.endswith("inferred)") else title
        for path in out or ():
            save(drawn, path, theme=theme, width=width, height=height, scale=scale, title=title)
    apart = apart_of({title: result.records for title, result in results.items()})
    if as_json:
        values = {
            "kind": name, "title": drawn.title, "caption": drawn.caption, "reading": drawn.reading,
            "files": [str(path) for path in out or ()], "notes": apart,
            "data": tables_of(specification(drawn.chart())),
        }  # fmt: skip
        print_json(values)
        return
    from rich.console import Console  # noqa: PLC0415

    console = Console(highlight=False, markup=False, emoji=False)
    for text in (drawn.reading, *apart):
        console.print(text)


def _in_order(sources: list[str], kind: str) -> tuple[list[str], str]:
    """Return the sources and the name of the kind, also of the order KIND SOURCE…, with a warning.

    Raises:
        typer.BadParameter: the kind is unknown.
    """
    name = kind.replace("-", "_")
    if name in KINDS:
        return sources, name
    first = sources[0].replace("-", "_")
    if first in KINDS:
        ordered = [*sources[1:], kind]
        typer.echo(
            f"sojourn plot: the order is SOURCE… KIND: sojourn plot {printable(' '.join(ordered), 200)} {first}. "
            "KIND before SOURCE is an error from the next release on.",
            err=True,
        )
        return ordered, first
    near = get_close_matches(name, KINDS, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise typer.BadParameter(f"{kind!r} is not a chart; {hint}Choose from {', '.join(KINDS)}", param_hint="KIND")


def _applicable(context: typer.Context, kind: str, by: str | None, **options: object) -> str | None:
    """Return ``by`` as the kind uses it, and check the other options.

    A default of a configuration file is of all kinds: those that cannot be divided by a column do not use it.

    Raises:
        typer.BadParameter: the kind has no such option.
    """
    source = context.get_parameter_source("by")
    if kind not in ABILITIES["by"][0] and source is not None and source.name != "COMMANDLINE":
        by = None
    try:
        check_options(kind, {"by": by, **options})
    except ArgumentError as error:
        option, _, reason = str(error).partition(": ")
        raise typer.BadParameter(reason, param_hint="--against" if option == "logs" else f"--{option}") from None
    return by


def _limits(text: str | None, option: str) -> tuple[str | None, str | None] | None:
    """Return ``LOW,HIGH`` as the ends of an axis; an empty one is None.

    Raises:
        typer.BadParameter: these are not two, or both are empty.
    """
    if text is None:
        return None
    low, comma, high = text.partition(",")
    if not comma or "," in high or not (low.strip() or high.strip()):
        raise typer.BadParameter(f"{text!r} is not LOW,HIGH, such as 0.01,10 or 0.01,", param_hint=option)
    return low.strip() or None, high.strip() or None


def _labelled(sources: list[str], against: list[str], labels: list[str]) -> dict[str, list[str]]:
    """Return the name of each log -> its sources: the user's, or that of the file where these are distinct.

    Raises:
        typer.BadParameter: there are more or fewer labels than logs, or two are the same.
    """
    logs = [sources, *([each] for each in against)]
    if not labels:
        short = [Path(log[0]).name if "://" not in log[0] else hidden(log[0]) for log in logs]
        labels = short if len(set(short)) == len(short) else [hidden(log[0]) for log in logs]
    if len(labels) != len(logs):
        raise typer.BadParameter(
            f"{counted(len(labels), 'label')} for {counted(len(logs), 'log')}", param_hint="--label"
        )
    if len(set(labels)) < len(labels):
        raise typer.BadParameter("two logs have the same name: give each a --label", param_hint="--label")
    return dict(zip(labels, logs, strict=True))


def _checked(out: Sequence[Path] | None, as_json: bool, theme: str, scale: float) -> None:
    """Check the options before any source is read."""
    if not out and not as_json:
        raise typer.BadParameter("name the file to write, or give --json", param_hint="--out")
    if theme not in ("light", "dark"):
        raise typer.BadParameter(f"{theme!r} is not light or dark", param_hint="--theme")
    from sojourn.plots.files import writer  # noqa: PLC0415

    for path in out or ():
        try:
            writer(path, scale)
        except SojournError as error:
            raise typer.BadParameter(str(error), param_hint="--out") from None
