"""A run as tables and sentences for people; everything here only formats what the record holds."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from sojourn.words import milliseconds, printable

from sojourn_lab.criteria import by_base, median_at, number_at, value_at
from sojourn_lab.document import CaseResult, CriterionResult, Run, seconds_between
from sojourn_lab.learned import formed
from sojourn_lab.scenario import Column, Reference

ABSENT = "–"
LONGEST = 2_000


def _plain(text: str) -> str:
    """Return text of a scenario or a record as it may go to a terminal: nothing in it is markup or obeyed."""
    return escape(printable(text, LONGEST))


def print_run(console: Console, run: Run, where: str) -> None:
    """Print a run: verdict first when it is void, then figures, criteria, what was learned, where it is."""
    if run.void:
        console.print("[bold red]This run is void: do not use its figures.[/]")
        for reason in run.void_reasons:
            console.print(f"  {_plain(reason)}")
    for fault in run.faults:
        console.print(f"[red]Went wrong after the measuring:[/] {_plain(fault)}")
    console.print(_plain(run.scenario.question))
    console.print()
    console.print(result_table(run))
    console.print()
    if run.predictions:
        console.print(prediction_table(run))
        console.print()
    if run.criteria:
        console.print(criteria_table(run))
        console.print()
    if run.contrasts:
        console.print(contrast_table(run))
        console.print()
    for sentence in run.learned:
        console.print(f"[dim]-[/] {_plain(sentence)}")
    if any(case.client is not None for case in run.cases):
        console.print(_generator_sentence(run))
    console.print(
        f"up in {run.spin_up:.1f} s, down in {run.tear_down:.1f} s; rows: client {run.rows.client},"
        f" access {run.rows.access}, spans {run.rows.spans}"
    )
    console.print(f"run: {_plain(where)}", soft_wrap=True)
    report = Path(where) / "report.html"
    if report.is_file():
        console.print(f"report: {_plain(str(report))}", soft_wrap=True)


def one_line(run: Run, where: str) -> str:
    """Return the outcome of a run among several: passed, void, or what failed; with markup."""
    kept = sum(each.passed for each in run.criteria)
    if run.passed:
        outcome = "[green]passed[/]"
    else:
        failed = sorted({each.name for each in run.criteria if not each.passed})
        outcome = "[red]void[/]" if run.void else "[red]failed[/]"
        outcome += f": {_plain('; '.join([*run.void_reasons, *run.faults, *failed]))}"
    took = seconds_between(run.started, run.finished)
    counts = f"{kept} of {len(run.criteria)} criteria, {took:.0f} s"
    return f"{_plain(run.scenario.name):22} {outcome} ({counts}; {_plain(where)})"


def _generator_sentence(run: Run) -> str:
    clients = [case.client for case in run.cases if case.client is not None]
    offered, sent = sum(each.offered for each in clients), sum(each.sent for each in clients)
    lags = [max(each.schedule_lag.p99 or 0.0, each.loop_lag.p99 or 0.0) for each in clients]
    return (
        f"the generator sent {sent} of {offered} requests in time, at most {milliseconds(max(lags))} ms late at p99,"
        f" and used {max(each.cpu for each in clients):.0%} of a core"
    )


def result_table(run: Run) -> Table:
    """Return the scenario's columns for every case; without any, its means beside the law's and the reference's."""
    scenario = run.scenario
    scaled = f", every duration times {run.scale:g}" if run.scale != 1.0 else ""
    if scenario.columns:
        return _table_of_columns(run, f"{_plain(scenario.title)}\n{_shown_in(run)}{scaled}")
    table = _table(f"{_plain(scenario.title)}\nmeans in ms{scaled}", padding=(0, 0, 0, 0))
    table.add_column("case", no_wrap=True)
    with_reference = any(case.reference is not None for case in run.cases)
    beside = ["law", _plain(scenario.reference_name)] if with_reference else ["law"]
    for heading in ["service", "queueing", *beside, "response", *beside, "connect", "n"]:
        table.add_column(heading, justify="right", no_wrap=True)
    for case in run.cases:
        table.add_row(*_result_cells(case, with_reference))
    return table


def _shown_in(run: Run) -> str:
    beside = f"; beside them in ( ) the {run.scenario.reference_name}" if _has_references(run) else ""
    several = f", medians of {run.scenario.repeats} rounds" if run.scenario.repeats > 1 else ""
    return f"as the headings say{several}{beside}"


def _has_references(run: Run) -> bool:
    return any(case.reference is not None for case in run.cases) and any(
        column.reference is not None for column in run.scenario.columns
    )


def _table_of_columns(run: Run, title: str) -> Table:
    table = _table(title, padding=(0, 1, 0, 0))
    headings, rows = figure_rows(run)
    for number, heading in enumerate(headings):
        table.add_column(_plain(heading), justify="right" if number else "left", no_wrap=not number)
    for row in rows:
        table.add_row(*(_plain(cell) for cell in row))
    return table


def figure_rows(run: Run) -> tuple[list[str], list[list[str]]]:
    """Return headings and rows of the scenario's columns: the medians over the rounds, and what stands beside them."""
    columns = run.scenario.columns
    units = {"ms": ", ms", "s": ", s"}
    headings = ["case", *(f"{each.title}{units.get(each.shown, '')}" for each in columns)]
    references = {case.base or case.name: case.reference for case in run.cases}
    void = {case.base or case.name for case in run.cases if case.void}
    rows = []
    for name, rounds in by_base(run.cases).items():
        cells = [name + (" (void)" if name in void else "")]
        reference = references[name]
        for column in columns:
            cell = _shown(column, rounds)
            beside = _beside(column, reference)
            cells.append(f"{cell} ({beside})" if beside else cell)
        rows.append(cells)
    return headings, rows


def _shown(column: Column, rounds: list[Any]) -> str:
    if column.shown == "text":
        found = value_at(column.metric, rounds[0])
        return ABSENT if found is None else str(found)
    return figure_text(median_at(column.metric, rounds), column.shown)


def _beside(column: Column, reference: Reference | None) -> str:
    if reference is None or column.reference is None:
        return ""
    own = getattr(reference, column.reference, None)
    found = own if isinstance(own, int | float) else reference.figures.get(column.reference)
    return "" if found is None else figure_text(found, column.shown)


def figure_text(value: float | None, shown: str) -> str:
    """Return a figure as a cell shows it, its unit being in the heading."""
    if value is None:
        return ABSENT
    match shown:
        case "ms":
            return milliseconds(value)
        case "s":
            return f"{value:.3g}"
    return formed(value, shown)


def contrast_table(run: Run) -> Table:
    """Return the contrasts: both figures, their ratio and its interval."""
    table = _table("Compared over the rounds", padding=(0, 1, 0, 0))
    for heading in ("contrast", "a", "b", "a / b", "95 % interval"):
        table.add_column(heading, justify="left" if heading == "contrast" else "right")
    for each in run.contrasts:
        interval = ABSENT if each.low is None or each.high is None else f"{each.low:.3f} to {each.high:.3f}"
        figures = [ABSENT if value is None else f"{value:.4g}" for value in (each.a, each.b)]
        table.add_row(_plain(each.name), *figures, ABSENT if each.ratio is None else f"{each.ratio:.3f}", interval)
    return table


def _table(title: str, padding: tuple[int, int, int, int]) -> Table:
    # Narrow enough for a terminal of 80 columns, which a run's ten columns would otherwise not fit.
    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
        show_edge=False,
        padding=padding,
    )


def _result_cells(case: CaseResult, with_reference: bool) -> list[str]:
    def measured_and_beside(path: str, name: str) -> list[str]:
        cells = [milliseconds(number_at(path, case.split)), milliseconds(getattr(case.law, name, None))]
        return [*cells, milliseconds(getattr(case.reference, name, None))] if with_reference else cells

    return [
        _plain(case.name) + (" [red]void[/]" if case.void else ""),
        milliseconds(number_at("components.service_time.mean", case.split)),
        *measured_and_beside("components.queueing_delay.mean", "queueing_delay"),
        *measured_and_beside("response_time.mean", "response_time"),
        milliseconds(number_at("components.connect.mean", case.split)),
        ABSENT if case.client is None else str(case.client.offered),
    ]


def prediction_table(run: Run) -> Table:
    """Return what was measured before each change, predicted, and measured after it, in milliseconds."""
    table = _table("Predicted, then made: response time in ms (error: predicted to after)", padding=(0, 1, 0, 0))
    for heading in ("change", "", "before", "predicted", "after", "error"):
        table.add_column(heading, justify="left" if heading in ("change", "") else "right", no_wrap=heading != "change")
    for each in run.predictions:
        for name, figure in (("p50", each.p50), ("p99", each.p99)):
            table.add_row(
                _plain(each.change) if name == "p50" else "",
                name,
                milliseconds(figure.before),
                "refused" if each.refused is not None else milliseconds(figure.predicted),
                milliseconds(figure.after),
                ABSENT if figure.error is None else f"{figure.error:+.1%}",
            )
    return table


def criteria_table(run: Run) -> Table:
    """Return one row per criterion written down beforehand; a failed one gets a row per case."""
    table = _table("Written down beforehand (durations in s)", padding=(0, 1, 0, 0))
    for heading in ("criterion", "cases", "result", "found"):
        table.add_column(heading)
    for name, group in groupby(run.criteria, key=lambda each: each.name):
        judged = list(group)
        failed = [each for each in judged if not each.passed]
        if not failed:
            table.add_row(_plain(name), str(len(judged)), "[green]passed[/]", _range(judged))
        for each in failed:
            found = f"{ABSENT if each.value is None else f'{each.value:.4g}'}, wanted {each.bound}"
            table.add_row(_plain(name), _plain(each.case), "[red]failed[/]", _plain(found))
    return table


def _range(judged: list[CriterionResult]) -> str:
    values = [each.value for each in judged if each.value is not None]
    low, high = min(values), max(values)
    return f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"
