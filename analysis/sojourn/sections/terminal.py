"""A section on a terminal: what failed first, then the finding, its tables, and what to know."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from sojourn.sections.section import Section, Table
from sojourn.words import printable

CELL = 60


def show(*sections: Section) -> None:
    """Print sections to stdout."""
    Console().print(rendered(*sections))


def rendered(*sections: Section) -> RenderableType:
    """Sections as one rich renderable."""
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


def _table(table: Table) -> RichTable:
    made = RichTable(
        title=Text(printable(table.title, 200)) if table.title else None,
        title_justify="left",
        title_style="dim",
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
    )
    for number, heading in enumerate(table.headings):
        if number < table.text_columns:
            made.add_column(Text(printable(heading)), max_width=CELL, overflow="fold")
        else:
            made.add_column(Text(printable(heading)), justify="right", no_wrap=True)
    for row in table.rows[: table.shown]:
        made.add_row(*(Text(printable(cell, 2 * CELL)) for cell in row))
    hidden = table.more + max(len(table.rows) - table.shown, 0)
    if hidden:
        made.add_row(Text(f"… {hidden:,} more", style="dim"))
    return made
