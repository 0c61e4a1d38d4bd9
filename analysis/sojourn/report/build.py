"""A report: every analysis of the same requests, and the page with all of them."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from sojourn.analyses import report_columns, reported
from sojourn.analyses.question import Question, ReportContext
from sojourn.analyses.split.page import split_part
from sojourn.analyses.split.result import SplitResult
from sojourn.analyses.split.run import with_wire
from sojourn.model.errors import SojournError
from sojourn.model.verdict import SLO
from sojourn.present.drawing_process import DrawingProcess
from sojourn.present.pictures import Drawings
from sojourn.present.section import Section
from sojourn.readers.inputs import NamedSources, Source
from sojourn.report.html import report_page
from sojourn.sources.traces import Traces, read_traces
from sojourn.timeline.visits import WorkersLike

SHARE_VISITS = ("blame", "depth", "laws")
"""Questions that start from the same visits. They are answered first, and the visits are released before the others."""
NO_SOURCES = NamedSources((), (), ())
LARGE = 100_000  # requests; the garbage of fewer is not worth the time to collect it


def columns_of(by: str, captures: Sequence[Source]) -> tuple[str, ...]:
    """Return the columns that a report reads in addition to those of the split."""
    if not captures:
        return (*report_columns(), by)
    from sojourn.analyses.pcap.log_join import READ  # noqa: PLC0415 - loaded for captures only

    return (*report_columns(), *READ, by)


def traces_of(sources: NamedSources, spans: Sequence[Source] | None) -> Traces | None:
    """Return the spans of files and run folders if they come from several services, otherwise None.

    Raises:
        SojournError: a file cannot be read.
    """
    folders = [folder for folder in sources.folders if any(Path(folder).glob("spans.jsonl*"))]
    named = [*(spans or ()), *folders]
    traces = read_traces(named) if named else None
    return traces if traces is not None and traces.spans["service"].n_unique() > 1 else None


def write_analyses(
    result: SplitResult,
    path: str | os.PathLike[str],
    *,
    process: DrawingProcess,
    title: str | None = None,
    by: str = "route",
    workers: WorkersLike = None,
    slo: float = SLO,
    before: SplitResult | None = None,
    sources: NamedSources = NO_SOURCES,
    spans: Sequence[Source] = (),
    captures: Sequence[Source] = (),
    on_step: Callable[[str], None] = lambda _: None,
) -> list[Section]:
    """Write a page with the split and all analyses, and return their sections.

    A chart is drawn while the next analysis computes.

    Args:
        result: the split, with the columns of ``columns_of``; the result of ``captures`` is added to it.
        path: the HTML file to write, whole or not at all.
        process: draws the charts.
        title: heading; None: the names of the sources.
        by: as of ``sections_of``, as are the arguments that follow.
        workers: number of workers per backend.
        slo: objective for p99, s.
        before: another split.
        sources: the sources of the split.
        spans: files with spans.
        captures: captures of the same requests.
        on_step: called with the name of each step before it begins.

    Raises:
        SojournError: a capture or the spans cannot be read, a chart cannot be drawn, or the file cannot be written.
    """
    drawings = Drawings(process)
    if captures:
        on_step("reading packets")
        with_wire(result, captures)
    on_step("split")
    split = split_part(result)
    drawings.begin(split.pictures)
    sections = sections_of(
        result, by=by, workers=workers, slo=slo, before=before, sources=sources, spans=spans, on_step=on_step,
        on_section=lambda section: drawings.begin(section.pictures),
    )  # fmt: skip
    on_step("drawing")
    report_page(result, title=title, split=split, sections=sections).write(path, drawings)
    return sections


def sections_of(
    result: SplitResult,
    *,
    by: str = "route",
    workers: WorkersLike = None,
    slo: float = SLO,
    before: SplitResult | None = None,
    sources: NamedSources = NO_SOURCES,
    spans: Sequence[Source] = (),
    on_step: Callable[[str], None] = lambda _: None,
    on_section: Callable[[Section], None] = lambda _: None,
) -> list[Section]:
    """Return the sections of all analyses, in reading order.

    The section of an analysis that is not possible for these requests states the reason.

    Args:
        result: the split, with the columns of ``columns_of`` and the result of ``captures``.
        by: column of victims and culprits, and of the groups of goodput and changes.
        workers: number of workers per backend; None: derived from the worker values.
        slo: objective for p99 of the response time, s.
        before: another split to compare with.
        sources: the sources of the split; run folders may have spans of several services.
        spans: files with spans, possibly of several services.
        on_step: called with the name of each step before it begins.
        on_section: called with each section as soon as it is computed.

    Raises:
        SojournError: the spans cannot be read.
    """
    on_step("reading spans")
    context = ReportContext(result, by, workers, slo, before, traces_of(sources, spans))
    sections: dict[str, Section] = {}

    def answer(question: Question) -> None:
        on_step(question.title)
        try:
            section = context.section(question)
        except SojournError as error:
            section = Section(question.name, question.title, f"Not available: {error}.")
        if section is not None:
            sections[question.name] = section
            on_section(section)

    listed = reported()
    _collect(result)
    for question in listed:
        if question.name in SHARE_VISITS:
            answer(question)
    result.forget("visits")
    _collect(result)
    for question in listed:
        if question.name not in SHARE_VISITS:
            answer(question)
    return [sections[question.name] for question in listed if question.name in sections]


def _collect(result: SplitResult) -> None:
    """Collect garbage, which may hold frames of all requests."""
    if result.requests >= LARGE:
        gc.collect()
