"""The report: verdict, charts, tables, audit, and what was refused."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import jinja2
import markupsafe
import vl_convert

from sojourn import __version__
from sojourn.analyses.split.pictures import split_pictures
from sojourn.analyses.split.result import SplitResult
from sojourn.analyses.split.table import audit_sentence, clock_sentence, group_name, read_sentence
from sojourn.model.components import COMPONENTS
from sojourn.model.formatting import counted, duration, milliseconds, percent, printable, unbroken
from sojourn.model.redaction import shown_line
from sojourn.model.statistics import FIGURES
from sojourn.present.drawing import vega_lite_version
from sojourn.present.files import written_whole
from sojourn.present.pictures import Drawing, drawn, told_apart
from sojourn.present.section import Picture, Section
from sojourn.present.templating import templates_of
from sojourn.readers.record import REASONS
from sojourn.report.short import in_short

REJECTS_SHOWN = 50
ROWS_SHOWN = 25
TABLE_ROWS = 50
PLACES = ("main", "theme", "short", "findings", "split", "audit", "refused", "log")  # ids of the page's own


class Entry(NamedTuple):
    """A line of the contents: where it leads, what it is called, what is found there."""

    key: str
    title: str
    sentence: str


class Part(NamedTuple):
    """A part of the mean response time: its name, its colour's name, s, and its share."""

    name: str
    colour: str
    seconds: float
    share: float


def write_html(
    result: SplitResult | None,
    path: str | os.PathLike[str],
    title: str | None = None,
    sections: Sequence[Section] = (),
    lead: Section | None = None,
    opening: Sequence[Picture] = (),
) -> None:
    """Write the report of a split, whole or not at all.

    Args:
        result: what to show; None where ``lead`` is all there is.
        path: the file to write.
        title: heading; by default the names of the sources.
        sections: what else was found, shown after the split in this order; what failed in them is said at the top.
        lead: what comes before everything else, its sentence in place of the split's verdict.
        opening: pictures before the lead's sentence.

    Raises:
        SojournError: the file cannot be written.
    """
    page = html(result, title, sections, lead, opening)
    with written_whole(path) as partial:
        partial.write_text(page, encoding="utf-8")


def html(
    result: SplitResult | None,
    title: str | None = None,
    sections: Sequence[Section] = (),
    lead: Section | None = None,
    opening: Sequence[Picture] = (),
) -> str:
    """The report as text; arguments as of ``write_html``."""
    environment = _environment()
    taken = {*PLACES, *(section.key for section in sections), *([lead.key] if lead is not None else [])}
    opened = told_apart([drawn(each) for each in opening], taken)
    figures = told_apart([drawn(each) for each in split_pictures(result)], taken) if result is not None else []
    pictures: dict[str, list[Drawing]] = {
        section.key: told_apart([drawn(each) for each in section.pictures], taken)
        for section in (*([lead] if lead is not None else []), *sections)
    }
    names = () if result is None else result.names
    return environment.get_template("report.html").render(
        title=printable(title or "", 300) or ", ".join(printable(name, 60) for name in names[:3]) or "split",
        result=result,
        lead=lead,
        opening=opened,
        short=[] if result is None or lead is not None else in_short(result, sections),
        entries=_entries(result, sections),
        parts=[] if result is None else _parts(result),
        read="" if result is None else read_sentence(result),
        audit="" if result is None else _audit(result),
        clocks="" if result is None else clock_sentence(result),
        components=COMPONENTS,
        figure_names=FIGURES,
        figures=figures,
        sections=sections,
        pictures=pictures,
        rejects=[] if result is None else _rejects(result),
        reasons=REASONS,
        rows_shown=ROWS_SHOWN,
        table_rows=TABLE_ROWS,
        style=_file(environment, "report.css"),
        script=_file(environment, "report.js"),
        bundle=markupsafe.Markup(_libraries()) if figures or opened or any(pictures.values()) else "",  # noqa: S704
        version=__version__,
        made=datetime.now(UTC),
    )


def _environment() -> jinja2.Environment:
    environment = templates_of("sojourn.report")
    environment.filters.update(
        ms=milliseconds,
        duration=duration,
        percent=percent,
        printable=printable,
        group_name=group_name,
        unbroken=unbroken,
    )
    return environment


def _file(environment: jinja2.Environment, name: str) -> markupsafe.Markup:
    """A file beside the templates as it is: nothing in it is from a log."""
    assert environment.loader is not None  # noqa: S101 - it has just been given one
    return markupsafe.Markup(environment.loader.get_source(environment, name)[0])  # noqa: S704


def _libraries() -> str:
    return vl_convert.javascript_bundle(vl_version=vega_lite_version())  # type: ignore[call-arg]


def _entries(result: SplitResult | None, sections: Sequence[Section]) -> list[Entry]:
    """What the page holds, in its order."""
    entries = [Entry(section.key, section.title, section.sentence) for section in sections]
    if result is None:
        return entries
    refused = f"{result.records.rejected:,} of {counted(result.records.read, 'line')}."
    ends = [
        Entry("audit", "Audit", _audit(result)),
        Entry("refused", "What was refused", refused if result.records.rejected else "Nothing."),
    ]
    if not result.requests:
        return [*entries, *ends]
    times = result.response_time
    split = (
        f"Half of the requests took {duration(times['p50'])} or less, one in a hundred "
        f"{duration(times['p99'])} or more."
    )
    return [Entry("split", "The split", split), *entries, *ends]


def _audit(result: SplitResult) -> str:
    """The audit's sentence under a heading that says what it is."""
    text = audit_sentence(result).removeprefix("Audit: ")
    return text[:1].upper() + text[1:]


def _parts(result: SplitResult) -> list[Part]:
    """The mean response time in three; what is below zero by a clock's error has no width."""
    total = sum(result.means.values())
    if total <= 0:
        return []
    queueing = result.means["connect"] + result.means["queue"]
    service = result.means["service_time"]
    seconds = {"queueing delay": queueing, "service time": service, "everything else": total - queueing - service}
    drawn_total = sum(max(value, 0.0) for value in seconds.values())
    colours = ("queueing", "service", "other")
    return [
        Part(name, colour, value, max(value, 0.0) / drawn_total)
        for (name, value), colour in zip(seconds.items(), colours, strict=True)
    ]


def _rejects(result: SplitResult) -> list[dict[str, object]]:
    return [{**reject, "raw": shown_line(reject["raw"])} for reject in result.records.rejects[:REJECTS_SHOWN]]
