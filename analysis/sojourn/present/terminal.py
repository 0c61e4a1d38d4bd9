"""A section on a terminal: failures, finding, tables, notes."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.text import Text

from sojourn.model.formatting import printable
from sojourn.present.fitted_table import FittedTable
from sojourn.present.section import Section, Table


def show(*sections: Section) -> None:
    """Print sections to stdout."""
    Console().print(rendered(*sections))


def rendered(*sections: Section) -> RenderableType:
    """Return sections as one rich renderable."""
    parts: list[RenderableType] = []
    for section in sections:
        if parts:
            parts.append(Text())
        parts.extend(_parts(section))
    return Group(*parts)


def _parts(section: Section) -> Iterator[RenderableType]:
    for failure in section.failures:
        yield Text(f"AUDIT  {printable(failure, 400)}", style="bold yellow")
    yield Text(printable(section.sentence, 600), style="bold")
    if section.measures:
        yield Text(printable(section.measures, 600), style="dim")
    for table in section.tables:
        yield Text()
        yield _table(table)
    if section.notes:
        yield Text()
    for note in section.notes:
        yield Text(f"NOTE  {printable(note, 600)}", style="yellow")


def _table(table: Table) -> FittedTable:
    rows = table.rows[: table.shown]
    hidden = table.more + len(table.rows) - len(rows)
    return FittedTable(table.headings, rows, table.text_columns, table.title, hidden)
