"""Format a playbook's record as files and as a table."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from sojourn.model.formatting import printable

from sojourn_lab.experiments.playbook.record import PlaybookRecord, StepResult
from sojourn_lab.results.findings import formed
from sojourn_lab.results.metric_units import ABSENT
from sojourn_lab.results.rows import UNITS, figure_text

LONGEST = 500
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?", re.IGNORECASE)


def step_rows(record: PlaybookRecord) -> tuple[list[str], list[list[str]]]:
    """Return (headings, rows): step, change, figures, criteria met, ratio, kept, seconds up and down."""
    columns = record.playbook.columns
    titles = [f"{each.title}{UNITS.get(each.shown, '')}" for each in columns]
    headings = ["step", "change", *titles, "met", "×", "kept", "up, s", "down, s"]
    return headings, [_cells(record, each) for each in record.steps]


def _cells(record: PlaybookRecord, step: StepResult) -> list[str]:
    columns = record.playbook.columns
    figures = [figure_text(step.figures.get(each.title), each.shown) for each in columns]
    return [
        step.name,
        step.change or ABSENT,
        *(figures if step.figures else [ABSENT] * len(columns)),
        f"{step.met}/{len(record.playbook.criteria)}" if step.outcome == "measured" else step.outcome,
        formed(step.ratio, ".2f"),
        "yes" if step.kept else "no",
        f"{step.spin_up:.1f}",
        f"{step.tear_down:.1f}",
    ]


def written(record: PlaybookRecord, folder: Path) -> None:
    """Write playbook.json, playbook.md and playbook.csv into the folder."""
    text = msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n"
    (folder / "playbook.json").write_bytes(text)
    (folder / "playbook.md").write_text(markdown(record), encoding="utf-8")
    (folder / "playbook.csv").write_text(comma_separated(record), encoding="utf-8", newline="")


def markdown(record: PlaybookRecord) -> str:
    """Return the record as a page of Markdown."""
    headings, rows = step_rows(record)
    lines = [f"# {_in_markdown(record.playbook.title)}", ""]
    if record.learned:
        lines += [_in_markdown(record.learned), ""]
    lines += ["| " + " | ".join(map(_in_markdown, headings)) + " |", "|" + " --- |" * len(headings)]
    lines += ["| " + " | ".join(map(_in_markdown, row)) + " |" for row in rows]
    lines += ["", "× is after / before, before being the last step that was kept.", ""]
    names = [each.name for each in record.playbook.criteria]
    if names:
        lines += ["Criteria, stated before the run:", "", *(f"- {_in_markdown(name)}" for name in names), ""]
    reasons = [each for each in record.steps if each.reason]
    lines += [f"- {_in_markdown(each.name)}: {each.outcome}: {_in_markdown(each.reason)}" for each in reasons]
    return "\n".join(lines).rstrip() + "\n"


def _in_markdown(text: str) -> str:
    return re.sub(r"([\\`*_{}\[\]<>|#])", r"\\\1", printable(text, LONGEST))


def comma_separated(record: PlaybookRecord) -> str:
    """Return the record as CSV, figures in their own units (seconds, shares); no cell is read as a formula."""
    columns = record.playbook.columns
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    head = ["step", "change", "start", "outcome", *(each.title for each in columns)]
    writer.writerow([plain_cell(each) for each in [*head, "met", "criteria", "ratio", "kept", "spin_up", "tear_down"]])
    for step in record.steps:
        figures = [step.figures.get(each.title) for each in columns]
        counts = [step.met, len(record.playbook.criteria), step.ratio, step.kept, step.spin_up, step.tear_down]
        cells = [step.name, step.change, step.start, step.outcome, *figures, *counts]
        writer.writerow([plain_cell(each) for each in cells])
    return out.getvalue()


def plain_cell(value: object) -> str:
    """Return a value as a cell that a spreadsheet reads as text or a number, never as a formula."""
    text = "" if value is None else printable(value, LONGEST)
    if text.startswith(FORMULA) and not NUMBER.fullmatch(text):
        return "'" + text
    return text


def print_playbook(console: Console, record: PlaybookRecord, where: str) -> None:
    """Print the table of a playbook, its findings, and its folder."""
    headings, rows = step_rows(record)
    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    # The change is in the files; here a step's name has to do, for a terminal is narrow.
    columns = [number for number, heading in enumerate(headings) if heading != "change"]
    for number in columns:
        table.add_column(escape(headings[number]), justify="right" if number else "left", no_wrap=not number)
    for row in rows:
        table.add_row(*(escape(printable(row[number], LONGEST)) for number in columns))
    console.print(f"[bold]{escape(printable(record.playbook.title, LONGEST))}[/]")
    console.print(table)
    console.print()
    console.print(escape(printable(record.learned, 4 * LONGEST)))
    for each in record.steps:
        if each.reason:
            console.print(f"{escape(printable(each.name))}: {each.outcome}: {escape(printable(each.reason, LONGEST))}")
    console.print(f"playbook: {escape(printable(where, LONGEST))}", soft_wrap=True)
