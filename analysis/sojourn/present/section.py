"""The parts a finding is laid out in, the same for a terminal and for a page.

Cells are text as it should be read, numbers already written out; what a log said may stand in them as it is, for both
renderers make it safe to show.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import altair as alt

Chart = alt.Chart | alt.LayerChart | alt.VConcatChart | alt.HConcatChart | alt.FacetChart


@dataclass(frozen=True)
class Table:
    """Rows under headings.

    Attributes:
        headings: one per column; the first ``text_columns`` are left-aligned, the others are numbers.
        rows: cells, as many as headings; the most important row first.
        title: what the rows are; empty for none.
        more: rows there are beyond these.
        shown: how many of them a terminal shows; a page shows all.
    """

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""
    text_columns: int = 1
    more: int = 0
    shown: int = 10


@dataclass(frozen=True)
class Picture:
    """A chart; drawn when a page is made, never on a terminal.

    Attributes:
        key: for anchors, unique in a report.
        title, caption: the caption is one sentence that says how to read it.
        chart: draws it.
        reading: what it shows here, in one sentence with its figures; reads the chart for those who cannot see it.
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
        title: as a heading.
        sentence: the finding, in one plain sentence with its figures.
        measures: from which event to which; one sentence.
        failures: what failed and makes the rest doubtful; said first.
        tables, pictures: in the order to be read.
        notes: what to know, and the step that mends it.
        inner: sections of its parts, such as the cases of a run: folded in a page, left out on a terminal.
        short: the finding for a reader with ten seconds; empty where nothing was found that should be claimed there.
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
