"""The data of a chart as tables, for screen readers and for copying."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sojourn.model.formatting import formatted, printable

ROWS = 100  # of one table; of more rows, a regular sample
TABLES = 6  # of one chart
NESTED = ("layer", "vconcat", "hconcat", "concat")
# A channel without meaning for readers: the order of painting.
MEANINGLESS = ("order", "key", "url", "href")
# Columns from left to right; columns of other channels come last.
FIRST = ("row", "column", "facet", "x", "x2", "y", "y2")

Spec = Mapping[str, Any]


@dataclass(frozen=True)
class Figures:
    """Rows of one set of data in a chart.

    Attributes:
        headings: what the axes and the tooltips call the columns.
        rows: cells as text.
        total: number of rows, including those left out.
        numbers: for each column, whether it holds numbers.
    """

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    total: int
    numbers: tuple[bool, ...]


def figures_of(spec: Spec) -> list[Figures]:
    """Return one table per set of data of a Vega-Lite specification, in the order of drawing.

    Columns are those the chart shows, without columns of the layout (a position without an axis, an order). A set
    without columns, or with all its columns in another table, is left out.
    """
    sets: list[tuple[list[dict[str, Any]], dict[str, str]]] = []
    for values, fields in _data_sets(spec, spec.get("datasets", {}), None, {}):
        columns = next((own_columns for rows, own_columns in sets if rows == values), None)
        if columns is None:
            sets.append((values, dict(fields)))
        else:
            columns.update({name: title for name, title in fields.items() if name not in columns})
    tables = [table for values, fields in sets if (table := _table(values, fields))]
    # A single figure is a line across the chart, which the caption explains.
    several = [table for table in tables if table.total > 1] or tables
    return several[:TABLES]


def _data_sets(
    node: Spec, datasets: Spec, data: Any, encoding: dict[str, Any]
) -> Iterator[tuple[list[dict[str, Any]], dict[str, str]]]:
    """Return every set of data with its shown fields: name -> heading."""
    data = node.get("data", data)
    encoding = {**encoding, **node.get("encoding", {})}
    inner = [one for key in NESTED for one in node.get(key, ())]
    if "spec" in node:
        inner.append(node["spec"])
    for one in inner:
        yield from _data_sets(one, datasets, data, encoding)
    if "mark" in node and isinstance(data, Mapping):
        values = data.get("values", datasets.get(data.get("name", ""), []))
        if isinstance(values, list) and values and isinstance(values[0], dict):
            yield values, _fields(encoding)


def _fields(encoding: Spec) -> dict[str, str]:
    titles: dict[str, str] = {}
    for channel in (*(name for name in FIRST if name in encoding), *(name for name in encoding if name not in FIRST)):
        definition = encoding[channel]
        several = definition if isinstance(definition, list) else [definition]
        # x2 and y2 have the same meaning as x and y.
        axis = encoding.get(channel.rstrip("2"), definition)
        laid_out = isinstance(axis, Mapping) and "axis" in axis and axis["axis"] is None
        if channel in MEANINGLESS or laid_out:
            continue
        for one in several:
            field = one.get("field") if isinstance(one, Mapping) else None
            # A tooltip says what one value is; an axis often what several are.
            if isinstance(field, str) and (field not in titles or (channel == "tooltip" and one.get("title"))):
                titles[field] = str(one.get("title") or field.replace("_", " "))
    return titles


def _table(values: list[dict[str, Any]], fields: dict[str, str]) -> Figures | None:
    # Lists and nested values are not cells.
    names = [
        name
        for name in fields
        if any(name in row for row in values) and not any(isinstance(row.get(name), list | dict) for row in values)
    ]
    if not names:
        return None
    unique = list(dict.fromkeys(tuple(row.get(name) for name in names) for row in values))
    count = len(unique)
    places = range(count) if count <= ROWS else sorted({round(k * (count - 1) / (ROWS - 1)) for k in range(ROWS)})
    numbers = tuple(all(isinstance(row[k], int | float | None) for row in unique) for k in range(len(names)))
    rows = tuple(tuple(_cell(value) for value in unique[place]) for place in places)
    return Figures(tuple(fields[name] for name in names), rows, count, numbers)


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return printable(value, 120)
    return f"{value:,}" if isinstance(value, int) else formatted(value, ".6g")
