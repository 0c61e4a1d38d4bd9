"""`sojourn lab runs` and `sojourn lab compare`: the list of runs, and the changes from one run to another."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from sojourn.model.formatting import counted, printable

from sojourn_lab.cli.common import RUNS, AsJson, plainly, print_json
from sojourn_lab.results.findings import FAILED, PASSED, VOID
from sojourn_lab.results.runs.archive import Archive, archive_of, selected
from sojourn_lab.results.runs.comparison import compared_runs
from sojourn_lab.results.runs.formatting import figure_rows, flip_rows, machinery_sentence, setup_rows, verdict
from sojourn_lab.results.runs.tables import query, run_rows
from sojourn_lab.results.tables import coloured

MOST_ROWS = 200
"""Rows of an SQL result that are printed in a terminal; --json prints all."""

FIGURE_COLUMNS = 7

Runs = Annotated[Path, typer.Option("--dir", help="Folder of the runs.", metavar="DIR")]


@plainly
def list_runs(
    *,
    runs: Runs = RUNS,
    sql: Annotated[
        str | None,
        typer.Option(
            help="Run one SELECT over runs, cases, figures, criteria, contrasts and requests; "
            "`DESCRIBE runs` shows a table's columns.",
            metavar="SELECT",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the runs, newest first, with their numbers; or query them by SQL."""
    archive = archive_of(runs)
    if sql is not None:
        names, rows = query(archive, sql)
        if as_json:
            answer = {"columns": names, "rows": [[_plain(value) for value in row] for row in rows]}
            print_json({**answer, "unreadable": archive.unreadable})
            return
        _table(names, [["" if value is None else _text(value) for value in row] for row in rows[:MOST_ROWS]])
        if len(rows) > MOST_ROWS:
            Console().print(f"{MOST_ROWS} of {counted(len(rows), 'row')}; --json prints all")
        _print_unreadable(archive)
        return
    newest_first = run_rows(archive)[::-1]
    if as_json:
        rows_of_runs = [
            {key: _plain(value) for key, value in row.items() if key not in ("setup", "versions")}
            for row in newest_first
        ]
        print_json({"runs": rows_of_runs, "unreadable": archive.unreadable})
        return
    headings = ["run", "name", "scenario", "begun (UTC)", "scale", "kept", "result"]
    _table(headings, [_cells(row) for row in newest_first])
    _print_unreadable(archive)


@plainly
def compare(
    before: Annotated[str, typer.Argument(help="The run before: its number, name, or folder.", metavar="RUN")],
    after: Annotated[str, typer.Argument(help="The run after.", metavar="RUN")],
    *,
    runs: Runs = RUNS,
    every: Annotated[bool, typer.Option("--all", help="Compare every number of the results.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compare two runs: their set-up, their figures, and whether a change exceeds the noise."""
    compared = compared_runs(selected(before, runs), selected(after, runs), every=every)
    if as_json:
        print_json(_finite({"verdict": verdict(compared), **compared.to_dict()}))
        return
    console = Console()
    console.print(f"[bold]{_safe(verdict(compared))}[/]")
    for note in compared.notes:
        console.print(f"[dim]-[/] {_safe(note)}")
    for title, (headings, rows) in (
        ("Changed settings", setup_rows(compared, every=every)),
        (
            "Figures (response, queueing and service in ms; medians over the rounds)",
            figure_rows(compared, every=every),
        ),
        ("Criteria met in one run only", flip_rows(compared)),
    ):
        if rows:
            console.print(f"\n[bold]{title}[/]")
            _table(headings, rows)
    for run, only in ((compared.a, compared.only_a), (compared.b, compared.only_b)):
        if only:
            console.print(f"only in {_safe(run.label)}: {_safe(', '.join(only))}")
    console.print(_safe(machinery_sentence(compared)))


def _cells(row: dict[str, Any]) -> list[str]:
    result = VOID if row["void"] else PASSED if row["passed"] else FAILED
    begun = "" if row["started"] is None else row["started"].strftime("%Y-%m-%d %H:%M")
    scale = "" if row["scale"] is None else f"{row['scale']:g}"
    met = f"{row['kept']}/{row['criteria']}"
    return [str(row["number"]), row["run"], row["scenario"], begun, scale, met, result]


def _table(headings: list[str], rows: list[list[str]]) -> None:
    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for number, heading in enumerate(headings):
        # The interval and the names are not folded as long as there is room; figures are short.
        table.add_column(_safe(heading), overflow="fold", no_wrap=number > 1 and len(headings) == FIGURE_COLUMNS)
    for row in rows:
        table.add_row(*(coloured(_safe(cell)) for cell in row))
    Console().print(table)


def _print_unreadable(archive: Archive) -> None:
    if archive.unreadable:
        console = Console()
        console.print(f"{len(archive.unreadable)} not read:")
        for name, reason in archive.unreadable.items():
            console.print(f"  {_safe(name)}: {_safe(reason)}")


def _safe(text: Any) -> str:
    """Return text of a record or a folder's name for a terminal, with markup and control characters escaped."""
    return escape(printable(text, 1_000))


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _plain(value: Any) -> Any:
    """Return a value from DuckDB as a JSON value; types that JSON lacks become text."""
    if isinstance(value, dict | list | tuple):
        return _finite([_plain(each) for each in value] if not isinstance(value, dict) else value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _finite(value: Any) -> Any:
    """Return plain values in which NaN and infinities are None: JSON lacks them."""
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return _plain(value) if isinstance(value, float) else value
