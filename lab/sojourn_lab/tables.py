"""A run as tables and sentences for people; everything here only formats what the record holds."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from sojourn.words import milliseconds, printable

from sojourn_lab.criteria import number_at
from sojourn_lab.document import CaseResult, CriterionResult, Run

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
    for sentence in run.learned:
        console.print(f"[dim]-[/] {_plain(sentence)}")
    console.print(_generator_sentence(run))
    console.print(
        f"up in {run.spin_up:.1f} s, down in {run.tear_down:.1f} s; rows: client {run.rows.client},"
        f" access {run.rows.access}, spans {run.rows.spans}"
    )
    console.print(f"run: {_plain(where)}", soft_wrap=True)
    report = Path(where) / "report.html"
    if report.is_file():
        console.print(f"report: {_plain(str(report))}", soft_wrap=True)


def _generator_sentence(run: Run) -> str:
    clients = [case.client for case in run.cases]
    offered, sent = sum(each.offered for each in clients), sum(each.sent for each in clients)
    lags = [max(each.schedule_lag.p99 or 0.0, each.loop_lag.p99 or 0.0) for each in clients]
    return (
        f"the generator sent {sent} of {offered} requests in time, at most {milliseconds(max(lags))} ms late at p99,"
        f" and used {max(each.cpu for each in clients):.0%} of a core"
    )


def result_table(run: Run) -> Table:
    """Return the means of every case beside the law's and the reference's, in milliseconds."""
    scenario = run.scenario
    scaled = f", every duration times {run.scale:g}" if run.scale != 1.0 else ""
    table = _table(f"{_plain(scenario.title)}\nmeans in ms{scaled}", padding=(0, 0, 0, 0))
    table.add_column("case", no_wrap=True)
    with_reference = any(case.reference is not None for case in run.cases)
    beside = ["law", _plain(scenario.reference_name)] if with_reference else ["law"]
    for heading in ["service", "queueing", *beside, "response", *beside, "connect", "n"]:
        table.add_column(heading, justify="right", no_wrap=True)
    for case in run.cases:
        table.add_row(*_result_cells(case, with_reference))
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
        _plain(case.name) + (" [red]void[/]" if case.client.void else ""),
        milliseconds(number_at("components.service_time.mean", case.split)),
        *measured_and_beside("components.queueing_delay.mean", "queueing_delay"),
        *measured_and_beside("response_time.mean", "response_time"),
        milliseconds(number_at("components.connect.mean", case.split)),
        str(case.client.offered),
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
