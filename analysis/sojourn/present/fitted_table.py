"""A table for a terminal that keeps figures and headings whole and shortens long names in their middle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from sojourn.model.formatting import is_route, printable, shortened

MOST_NAME = 60  # columns of a name at most
FIGURE = 24  # columns: longer cells are names, in any column
LEAST_NAME = 14  # columns: headings are broken into lines before a name is cut further
SHORT_NAME = 8  # columns: words of headings are broken before a name is cut further
CELL = 120  # characters of a cell at most


@dataclass(frozen=True)
class FittedTable:
    """Rows under headings, at most as wide as the terminal.

    Attributes:
        headings: one per column, of one line or several.
        rows: cells, as many as headings.
        text_columns: number of first columns with left-aligned names; the others have figures, or long names.
        title: title above; empty: none.
        more: number of rows that are not shown, for the last line.
        gap: blanks between columns.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    text_columns: int = 1
    title: str = ""
    more: int = 0
    gap: int = 2

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table for the available width."""
        headings = ["\n".join(map(printable, heading.split("\n"))) for heading in self.headings]
        rows = [[printable(cell, CELL) for cell in row] for row in self.rows]
        room = options.max_width - self.gap * (len(headings) - 1)
        widths = self._widths(headings, rows, room)
        if self.title:
            yield Text(printable(self.title, 200), style="dim")
        table = Table(box=None, pad_edge=False, padding=(0, self.gap, 0, 0))
        for number, heading in enumerate(headings):
            left = number < self.text_columns
            table.add_column(Text(heading), justify="left" if left else "right", overflow="fold", width=widths[number])
        for row in rows:
            table.add_row(*(Text(_narrowed(cell, width)) for cell, width in zip(row, widths, strict=True)))
        yield table
        if self.more:
            yield Text(f"… {self.more:,} more", style="dim")

    def _widths(self, headings: Sequence[str], rows: Sequence[Sequence[str]], room: int) -> list[int]:
        """Return the widths of the columns: figures whole, names share the rest."""
        columns = range(len(headings))
        cells = [max((cell_len(row[k]) for row in rows), default=0) for k in columns]
        heading_lines = [max(map(cell_len, heading.split("\n"))) for heading in headings]
        heading_words = [max(map(cell_len, heading.split() or [""])) for heading in headings]
        names = [k for k in columns if k < self.text_columns or cells[k] > FIGURE]
        figures = [k for k in columns if k not in names]
        ideal = [min(max(cell, line), max(MOST_NAME, line)) for cell, line in zip(cells, heading_lines, strict=True)]
        between_words = [max(cell, word) for cell, word in zip(cells, heading_words, strict=True)]
        widths = [ideal[k] if k in figures else 0 for k in columns]
        # Headings give way to names: first between words, then within words.
        for narrower, name in ((between_words, LEAST_NAME), (cells, SHORT_NAME)):
            least = sum(min(ideal[k], name) for k in names)
            for k in sorted(figures, key=lambda k: narrower[k] - widths[k]):  # largest gain first
                if room - sum(widths) >= least:
                    break
                widths[k] = max(narrower[k], 1)
        rest = room - sum(widths)
        for number, k in enumerate(sorted(names, key=lambda k: ideal[k])):
            widths[k] = max(min(ideal[k], rest // (len(names) - number)), 1)
            rest -= widths[k]
        return widths


def _narrowed(cell: str, width: int) -> str:
    """Return text broken between words, with long words shortened; a route is shortened as a whole."""
    if cell_len(cell) <= width:
        return cell
    indent = cell[: len(cell) - len(cell.lstrip())]
    if is_route(cell.strip()):
        return indent + shortened(cell.strip(), width - len(indent))
    return indent + " ".join(shortened(word, width - len(indent)) for word in cell.split())
