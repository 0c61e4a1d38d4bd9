"""Sections, tables and pictures, common to terminal and page.

Cells are formatted texts. They may contain unescaped text from a log: both renderers escape it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sojourn.present.chart_libraries import alt

if TYPE_CHECKING:
    Chart = alt.Chart | alt.LayerChart | alt.VConcatChart | alt.HConcatChart | alt.FacetChart | alt.ConcatChart
else:
    Chart = Any  # Altair is loaded when a chart is drawn


@dataclass(frozen=True)
class Table:
    """Rows under headings.

    Attributes:
        headings: one per column; the first ``text_columns`` are left-aligned, the others are numbers.
        rows: cells, as many as headings; the most important row first.
        title: title of the table; empty: none.
        text_columns: number of left-aligned columns.
        more: number of further rows that are left out.
        shown: number of rows on a terminal; a page shows all.
    """

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""
    text_columns: int = 1
    more: int = 0
    shown: int = 10


@dataclass(frozen=True)
class Picture:
    """A chart for a page; a terminal shows none.

    Attributes:
        key: for anchors, unique in a report.
        title: heading.
        caption: one sentence that explains this kind of chart.
        chart: function that draws it.
        reading: its finding in one sentence with figures, also for screen readers.
    """

    key: str
    title: str
    caption: str
    chart: Callable[[], Chart]
    reading: str = ""


@dataclass(frozen=True)
class Section:
    """One analysis.

    Attributes:
        key: for anchors: blame, depth, …
        title: heading.
        sentence: the finding in one sentence with figures.
        measures: the events between which times are measured, in one sentence.
        failures: reasons to doubt the section, shown first.
        tables, pictures: in reading order.
        notes: limits of the finding, and how to remove them.
        short: the finding for the summary; empty: not certain enough for it.
        inner: sections of its parts, such as the cases of a run: folded in a page, left out on a terminal.
    """

    key: str
    title: str
    sentence: str
    measures: str = ""
    failures: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    pictures: tuple[Picture, ...] = ()
    notes: tuple[str, ...] = ()
    short: str = ""
    inner: tuple[Section, ...] = ()
