"""Show the result of any analysis: find the section for its type, and lay it out, in a notebook as HTML.

All texts from a log are escaped.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from html import escape
from importlib import import_module
from importlib.util import find_spec

from sojourn.model.formatting import printable, unbroken
from sojourn.present.section import Section, Table

SENTENCE = 600  # characters of a finding, at most
# Only the notebook's own text colour is used, at different strengths: readable on white and on black.
LINE = "border-bottom:1px solid color-mix(in srgb,currentColor 25%,transparent)"
CELL = "padding:.15em .8em .15em 0;border:0"
FAINT = "opacity:.75"


@functools.singledispatch
def lay_out(result: object) -> Section:
    """Return the section of a result; each type registers its own with ``@lay_out.register`` in its ``section.py``.

    Raises:
        TypeError: no section is registered for this type.
    """
    raise TypeError(f"{type(result).__name__} is not the result of an analysis")


def section_of(result: object) -> Section:
    """Return the section of a result; ``section.py`` of the folder that defines its type is loaded on demand.

    Raises:
        TypeError: it is not the result of an analysis.
    """
    folder = type(result).__module__.rpartition(".")[0]
    if folder and find_spec(f"{folder}.section") is not None:
        import_module(f"{folder}.section")
    return lay_out(result)


def sentence_of(result: object) -> str:
    """Return the finding in one sentence, safe for a terminal."""
    return printable(section_of(result).sentence, SENTENCE)


def html_of(result: object) -> str:
    """Return the section of a result as one ``<div>`` for a notebook; its charts are left to ``sojourn.plots``."""
    return "<div>" + "".join(_parts(section_of(result))) + "</div>"


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
