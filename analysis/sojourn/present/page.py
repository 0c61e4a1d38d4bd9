"""Write one self-contained HTML page, without network access and with escaped texts of the log."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

import jinja2
import markupsafe

from sojourn.model.components import COMPONENTS
from sojourn.model.figures import FIGURES
from sojourn.model.formatting import (
    counted,
    duration,
    group_name,
    headline,
    is_route,
    percent,
    printable,
    share_of_time,
    shortened,
    time_in_ms,
    unbroken,
)
from sojourn.model.version import version
from sojourn.present.files import written_whole
from sojourn.present.pictures import Drawing, Drawings, with_unique_ids
from sojourn.present.section import Picture, Section
from sojourn.present.templating import templates_of
from sojourn.readers.record import REASONS

MOST_ROWS = 25
TABLE_ROWS = 50
GENERATOR = "sojourn"  # in the head of a page: by it a page that may be replaced is recognised
HEAD = 1_000  # bytes in which it stands
PLACES = ("main", "theme", "short", "findings", "split", "audit", "refused", "log")  # ids of the page itself


class Entry(NamedTuple):
    """An entry of the contents: anchor, title and summary."""

    key: str
    title: str
    sentence: str


class Part(NamedTuple):
    """A part of the mean response time: name, name of the colour, seconds, share."""

    name: str
    colour: str
    seconds: float
    share: float


@dataclass(frozen=True)
class Line:
    """One line of the summary: label, sentences, and keys and titles of the sections with details."""

    label: str
    text: str
    more: tuple[tuple[str, str], ...] = ()
    doubtful: bool = False


@dataclass(frozen=True)
class SplitPart:
    """The split as a page shows it.

    Attributes:
        result: figures, verdict, audit and records, as ``sojourn.analyses.split.result.SplitResult`` has them.
        pictures: its charts.
        parts: the mean response time in three parts.
        read, audit, clocks: sentences.
        rejects: refused lines, safe to show.
        title: the services, or the names of the sources.
    """

    result: Any
    pictures: Sequence[Picture]
    parts: Sequence[Part]
    read: str
    audit: str
    clocks: str
    rejects: Sequence[dict[str, object]]
    title: str


@dataclass(frozen=True)
class Page:
    """A page before rendering.

    Attributes:
        split: the split; None: the page has only ``lead``.
        title: heading; empty: that of the split.
        sections: sections after the split; their failures are repeated at the top.
        lead: first section; its sentence replaces the split's verdict.
        opening: pictures before the sentence of ``lead``.
        short: the summary.
    """

    split: SplitPart | None = None
    title: str = ""
    sections: Sequence[Section] = ()
    lead: Section | None = None
    opening: Sequence[Picture] = ()
    short: Sequence[Line] = ()

    def write(self, path: str | os.PathLike[str], drawings: Drawings | None = None) -> None:
        """Write the page, completely or not at all.

        Args:
            path: the file.
            drawings: draws the pictures, some of which it may have drawn; None: all are drawn now.

        Raises:
            SojournError: the file cannot be written, or a picture cannot be drawn.
        """
        text = self.text(drawings)
        with written_whole(path) as partial:
            partial.write_text(text, encoding="utf-8")

    def text(self, drawings: Drawings | None = None) -> str:
        """Return the page as text; ``drawings`` as of ``write``."""
        drawings = drawings or Drawings()
        environment = _environment()
        leads = [] if self.lead is None else [self.lead]
        reserved = {*PLACES, *(section.key for section in (*leads, *self.sections))}
        opened = with_unique_ids([drawings.of(each) for each in self.opening], reserved)
        figures = (
            with_unique_ids([drawings.of(each) for each in self.split.pictures], reserved)
            if self.split is not None
            else []
        )
        pictures: dict[str, list[Drawing]] = {
            section.key: with_unique_ids([drawings.of(each) for each in section.pictures], reserved)
            for section in (*leads, *self.sections)
        }
        result = None if self.split is None else self.split.result
        return environment.get_template("report.html").render(
            title=printable(self.title, 300) or (self.split.title if self.split is not None else "") or "split",
            result=result,
            split=self.split,
            lead=self.lead,
            opening=opened,
            short=self.short,
            entries=_entries(self.split, self.sections),
            components=COMPONENTS,
            figure_names=FIGURES,
            figures=figures,
            sections=self.sections,
            pictures=pictures,
            reasons=REASONS,
            rows_shown=MOST_ROWS,
            table_rows=TABLE_ROWS,
            style=_file(environment, "report.css"),
            script=_file(environment, "report.js"),
            bundle=markupsafe.Markup(drawings.libraries()) if figures or opened or any(pictures.values()) else "",  # noqa: S704
            version=version(),
            generator=GENERATOR,
            made=datetime.now(UTC),
        )


def is_page(path: str | os.PathLike[str]) -> bool:
    """Return whether a file is a page of Sojourn's; False also if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return f'<meta name="generator" content="{GENERATOR}">'.encode() in file.read(HEAD)
    except OSError:
        return False


def _environment() -> jinja2.Environment:
    environment = templates_of("sojourn.present")
    environment.filters.update(
        ms=time_in_ms,
        share=share_of_time,
        duration=duration,
        percent=percent,
        printable=printable,
        group_name=group_name,
        unbroken=unbroken,
        headline=headline,
        shortened=shortened,
    )
    environment.tests["route"] = is_route
    return environment


def _file(environment: jinja2.Environment, name: str) -> markupsafe.Markup:
    """Return a file of the templates folder unchanged; it has no text from a log."""
    assert environment.loader is not None  # noqa: S101 - it has just been given one
    return markupsafe.Markup(environment.loader.get_source(environment, name)[0])  # noqa: S704


def _entries(split: SplitPart | None, sections: Sequence[Section]) -> list[Entry]:
    """Return the entries of the contents, in the order of the page."""
    entries = [Entry(section.key, section.title, section.sentence) for section in sections]
    if split is None:
        return entries
    records, times = split.result.records, split.result.response_time
    refused = f"{records.rejected:,} of {counted(records.read, 'line')}."
    ends = [
        Entry("audit", "Audit", split.audit),
        Entry("refused", "Refused lines", refused if records.rejected else "Nothing."),
    ]
    if not split.result.requests:
        return [*entries, *ends]
    sentence = (
        f"Half of the requests took {duration(times['p50'])} or less, one in a hundred "
        f"{duration(times['p99'])} or more."
    )
    return [Entry("split", "The split", sentence), *entries, *ends]
