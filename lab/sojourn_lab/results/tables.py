"""A run as tables and sentences on a terminal, formatted from its record alone."""

from __future__ import annotations

from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from sojourn.model.formatting import counted, duration, milliseconds, percent, printable

from sojourn_lab.results.findings import FAILED, PASSED, VOID, findings, outcome, void_sentence
from sojourn_lab.results.rows import (
    CONTRASTS,
    CRITERIA,
    PREDICTIONS,
    TARGETS,
    Rows,
    contrast_rows,
    criteria_rows,
    prediction_rows,
    reference_rows,
    result_caption,
    result_rows,
    target_rows,
)
from sojourn_lab.results.run_schema import Run, seconds_between

LONGEST = 2_000
COLOURS = {PASSED: "green", FAILED: "bold red", VOID: "bold red"}
"""State of a run or a criterion -> its colour on a terminal."""


def _plain(text: str) -> str:
    """Return text of a scenario or a record for a terminal, with markup and control characters escaped."""
    return escape(printable(text, LONGEST))


def print_run(console: Console, run: Run, where: str) -> None:
    """Print a run: that it is void and why, if it is; then the finding, figures, criteria, and its folder."""
    if run.void:
        console.print(f"[bold red]{_plain(void_sentence(run))}[/]")
    for fault in run.faults:
        console.print(f"[red]Fault:[/] {_plain(fault)}")
    finding, more = findings(run)[:1], findings(run)[1:]
    console.print(_plain(run.scenario.question))
    for sentence in finding:
        console.print(f"[bold]{_plain(sentence)}[/]")
    if not run.void:
        console.print(f"[{COLOURS[PASSED if run.passed else FAILED]}]{_plain(outcome(run))}[/]")
    console.print()
    for title, table in _tables(run):
        for line in title.splitlines():
            console.print(f"[bold]{_plain(line)}[/]")
        console.print(table)
        console.print()
    for sentence in filter(None, [*more, run.scenario.reference_note]):
        console.print(f"[dim]-[/] {_plain(sentence)}")
    if any(case.client is not None for case in run.cases):
        console.print(_generator_sentence(run))
    console.print(
        f"up in {duration(run.spin_up)}, down in {duration(run.tear_down)}; rows: client {run.rows.client},"
        f" access {run.rows.access}, spans {run.rows.spans}"
    )
    console.print(f"run: {_plain(where)}", soft_wrap=True)
    report = Path(where) / "report.html"
    if report.is_file():
        console.print(f"report: {_plain(str(report))}", soft_wrap=True)


def _tables(run: Run) -> list[tuple[str, Table]]:
    """Return the titles and tables of a run, in the order of printing."""
    caption = result_caption(run)
    title = f"{run.scenario.title}\n{caption}" if caption else run.scenario.title
    tables = [(title, _table(result_rows(run)))]
    if (targets := target_rows(run))[1]:
        tables.append((f"{TARGETS}, ms", _table(targets, text_columns=2)))
    if run.predictions:
        title = f"{PREDICTIONS} in ms (error: predicted / after - 1)"
        tables.append((title, _table(prediction_rows(run), text_columns=2)))
    if run.criteria:
        tables.append((CRITERIA, _table(criteria_rows(run), text_columns=4)))
    if run.contrasts:
        tables.append((CONTRASTS, _table(contrast_rows(run))))
    if (reference := reference_rows(run))[1]:
        tables.append((f"Comparison with the {run.scenario.reference_name}", _table(reference, text_columns=2)))
    return tables


def one_line(run: Run, where: str) -> str:
    """Return the outcome of a run among several: passed, void, or what failed; with markup."""
    met = sum(each.passed for each in run.criteria)
    if run.passed:
        verdict = coloured(PASSED)
    else:
        failed = sorted({each.name for each in run.criteria if not each.passed})
        reasons = filter(None, [*run.void_reasons, run.advice, *run.faults, *failed])
        verdict = f"{coloured(VOID if run.void else FAILED)}: {_plain('; '.join(reasons))}"
    took = seconds_between(run.started, run.finished)
    counts = f"{met} of {counted(len(run.criteria), 'criterion', 'criteria')}, {took:.0f} s"
    return f"{_plain(run.scenario.name):22} {verdict} ({counts}; {_plain(where)})"


def _generator_sentence(run: Run) -> str:
    clients = [case.client for case in run.cases if case.client is not None]
    offered, sent = sum(each.offered for each in clients), sum(each.sent for each in clients)
    lags = [max(each.schedule_lag.p99 or 0.0, each.loop_lag.p99 or 0.0) for each in clients]
    return (
        f"the generator sent {sent:,} of {counted(offered, 'request')} in time,"
        f" at most {milliseconds(max(lags))} ms late at p99, and used {percent(max(each.cpu for each in clients))} "
        f"of a core"
    )


def _table(rows: Rows, *, text_columns: int = 1) -> Table:
    headings, cells = rows
    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for number, heading in enumerate(headings):
        whole = not number and text_columns == 1
        table.add_column(_plain(heading), justify="left" if number < text_columns else "right", no_wrap=whole)
    for row in cells:
        table.add_row(*(coloured(_plain(cell)) for cell in row))
    return table


def coloured(cell: str) -> str:
    """Return escaped text of a cell, in its colour if it is the state of a run or a criterion."""
    colour = COLOURS.get(cell)
    return cell if colour is None else f"[{colour}]{cell}[/]"
