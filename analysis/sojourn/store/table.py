"""Format a query's result as a table for a terminal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sojourn.model.formatting import counted, formatted, printable
from sojourn.store.query import Row, plain_value

CELL = 80  # characters
_NUMBERS = ("Int", "UInt", "Float", "Decimal")


def answer_table(columns: list[tuple[str, str]], rows: Iterator[Row], limit: int) -> RenderableType:
    """Return the first ``shown`` rows, and a note where there are more. What came from a log is shown, never obeyed."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name, kind in columns:
        numeric = any(kind.removeprefix("Nullable(").startswith(word) for word in _NUMBERS)
        table.add_column(Text(printable(name, CELL)), justify="right" if numeric else "left", overflow="fold")
    count = 0
    for row in islice(rows, limit):
        table.add_row(*(Text(_cell(value)) for value in row))
        count += 1
    if not count:
        return Group(table, Text("no rows", style="dim"))
    if next(rows, None) is not None:
        note = f"the first {counted(limit, 'row')}; --rows shows more of them, --csv and --json give all"
        return Group(table, Text(note, style="dim"))
    return table


def _cell(value: Any) -> str:
    value = plain_value(value)
    if value is None:
        return "–"
    if isinstance(value, float):
        return formatted(value, ".9g")
    return printable(value if isinstance(value, str | int) else json.dumps(value, ensure_ascii=False), CELL)
