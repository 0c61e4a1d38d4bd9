"""A section as a piece of HTML for a notebook: the finding and its tables, in the notebook's own colours.

All texts from a log are escaped.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from sojourn.model.formatting import printable, unbroken
from sojourn.present.section import Section, Table

# Only the notebook's own text colour is used, at different strengths: readable on white and on black.
LINE = "border-bottom:1px solid color-mix(in srgb,currentColor 25%,transparent)"
CELL = "padding:.15em .8em .15em 0;border:0"
FAINT = "opacity:.75"


def html_of(section: Section) -> str:
    """Return the section as one ``<div>``; its charts are left to ``sojourn.plots``."""
    return "<div>" + "".join(_parts(section)) + "</div>"


def _parts(section: Section) -> Iterator[str]:
    for failure in section.failures:
        yield f"<p><strong>Audit:</strong> {_text(failure)}</p>"
    yield f"<p><strong>{_text(section.sentence)}</strong></p>"
    if section.measures:
        yield f'<p style="{FAINT}">{_text(section.measures)}</p>'
    for table in section.tables:
        yield from _table(table)
    if section.notes:
        yield f'<ul style="{FAINT}">' + "".join(f"<li>{_text(note)}</li>" for note in section.notes) + "</ul>"


def _table(table: Table) -> Iterator[str]:
    yield '<table style="border-collapse:collapse;background:none;margin:.5em 0">'
    if table.title:
        yield f'<caption style="caption-side:top;text-align:left;{FAINT}">{_text(table.title)}</caption>'
    yield f'<thead><tr style="{LINE}">'
    for number, heading in enumerate(table.headings):
        yield f'<th scope="col" style="{CELL};{_side(number, table)}">{_text(heading)}</th>'
    yield "</tr></thead><tbody>"
    for row in table.rows[: table.shown]:
        yield '<tr style="background:none">'
        for number, cell in enumerate(row):
            yield f'<td style="{CELL};{_side(number, table)}">{_text(cell)}</td>'
        yield "</tr>"
    hidden = table.more + max(len(table.rows) - table.shown, 0)
    if hidden:
        yield f'<tr><td colspan="{len(table.headings)}" style="{CELL};{FAINT}">… {hidden:,} more</td></tr>'
    yield "</tbody></table>"


def _side(number: int, table: Table) -> str:
    return "text-align:left" if number < table.text_columns else "text-align:right;font-variant-numeric:tabular-nums"


def _text(text: str) -> str:
    return escape(unbroken(printable(text, 1_000)))
