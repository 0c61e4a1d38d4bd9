"""A report: every analysis of the same requests, and the page with all of them."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from sojourn.analyses import report_columns, reported
from sojourn.analyses.pcap.log_join import READ
from sojourn.analyses.question import Question, ReportContext
from sojourn.analyses.split.page import split_part
from sojourn.analyses.split.result import SplitResult
from sojourn.analyses.split.run import split_from, with_wire
from sojourn.model.errors import SojournError
from sojourn.model.instants import Instant
from sojourn.model.memory import MOST_PLACED
from sojourn.model.verdict import SLO
from sojourn.present.drawing_process import DrawingProcess
from sojourn.present.pictures import Drawings
from sojourn.present.section import Section
from sojourn.readers.inputs import NamedSources, Source, listed
from sojourn.report.html import report_page
from sojourn.report.stretch import stretch_of
from sojourn.sources.open_requests import Where
from sojourn.sources.opening import RequestsLike, read_already
from sojourn.sources.traces import Traces, read_traces
from sojourn.timeline.visits import WorkersLike

SHARE_VISITS = ("blame", "depth", "laws")
"""Questions that start from the same visits. They are answered first, and the visits are released before the others."""
OF_QUEUES = frozenset(("infer", "blame", "depth", "whatif", "laws", "clock"))
"""Questions that a log without the times of a queue does not answer: its verdict has the lines to add instead."""
NO_SOURCES = NamedSources((), (), ())
LARGE = 100_000  # requests; the garbage of fewer is not worth the time to collect it


def write_report(
    requests: RequestsLike,
    path: str | os.PathLike[str],
    *,
    by: str = "route",
    workers: WorkersLike = None,
    slo: float = SLO,
    before: RequestsLike | None = None,
    captures: Sequence[Source] | Source = (),
    title: str | None = None,
    spans: Sequence[Source] | Source = (),
    app_log: Sequence[Source] | Source = (),
    since: Instant = None,
    until: Instant = None,
    where: Where = None,
    most: int = MOST_PLACED,
) -> SplitResult:
    """Write one page with all analyses of the requests: ``sojourn report``.

    Args:
        requests: sources, a split, or a frame; with sources, all columns of the analyses are read.
        path: the HTML file to write, whole or not at all.
        by: column of victims and culprits, and of the groups of goodput and changes.
        workers: number of workers per backend, or one number for all; None: derived from the worker values.
        slo: objective for p99 of the response time, s.
        before: earlier requests to compare with.
        captures: captures of the same requests.
        title: heading; None: the services, or the names of the sources.
        spans: the app's spans, if ``requests`` are sources.
        app_log: the app's own access log, as for ``sojourn.split``.
        since: only requests that arrived at or after this instant: ISO 8601 with a zone, an aware
            datetime, or unix seconds.
        until: only requests that arrived before this instant.
        where: only requests with these values.
        most: requests that are placed in time; of more, those of the stretch with the most waiting, and the page says
            so. The split is of all.

    Returns:
        The split on the page.

    Raises:
        SojournError: a source cannot be read, or the file cannot be written.
    """
    packets = listed(captures)
    columns = columns_of(by, packets)
    with DrawingProcess() as process:
        result = split_from(
            requests,
            columns=columns,
            spans=spans,
            app_log=app_log,
            since=since,
            until=until,
            where=where,
            workers=workers,
        )
        earlier = None if before is None else split_from(before, columns=columns, where=where)
        sources = NO_SOURCES if read_already(requests) else NamedSources.of(requests)  # type: ignore[arg-type]
        write_analyses(
            result, path, process=process, title=title, by=by, workers=workers, slo=slo, before=earlier,
            sources=sources, spans=listed(spans), captures=packets, most=most,
        )  # fmt: skip
    return result


def columns_of(by: str, captures: Sequence[Source]) -> tuple[str, ...]:
    """Return the columns that a report reads in addition to those of the split."""
    return (*report_columns(), *(READ if captures else ()), by)


def traces_of(sources: NamedSources, spans: Sequence[Source] | None) -> Traces | None:
    """Return the spans of files and run folders if they come from several services, otherwise None.

    Raises:
        SojournError: a file cannot be read.
    """
    folders = [folder for folder in sources.folders if any(Path(folder).glob("spans.jsonl*"))]
    span_sources = [*(spans or ()), *folders]
    traces = read_traces(span_sources) if span_sources else None
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
    most: int = MOST_PLACED,
    on_step: Callable[[str], None] = lambda _: None,
) -> list[Section]:
    """Write a page with the split and all analyses, and return their sections.

    A chart is drawn while the next analysis computes.

    Arguments are those of ``write_report``; ``process`` draws the charts, and ``on_step`` is called with the name of
    each step before it begins.

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
        result, by=by, workers=workers, slo=slo, before=before, sources=sources, spans=spans, most=most,
        on_step=on_step, on_section=lambda section: drawings.begin(section.pictures),
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
    most: int = MOST_PLACED,
    on_step: Callable[[str], None] = lambda _: None,
    on_section: Callable[[Section], None] = lambda _: None,
) -> list[Section]:
    """Return the sections of all analyses, in reading order.

    The section of an analysis that is not possible for these requests states the reason.

    Arguments are those of ``write_analyses``; ``on_section`` is called with each section as soon as it is computed.

    Raises:
        SojournError: the spans cannot be read.
    """
    on_step("reading spans")
    context = ReportContext(result, by, workers, slo, before, traces_of(sources, spans))
    stretch = stretch_of(result, most)
    placed = result if stretch is None else stretch.part_of(result)
    sections: dict[str, Section] = {}

    def answer(question: Question) -> None:
        on_step(question.title)
        try:
            section = (context._replace(requests=placed) if question.places else context).section(question)
        except SojournError as error:
            section = Section(question.name, question.title, f"Not available: {error}.")
        if section is not None and stretch is not None and question.places:
            section = stretch.marked(section)
        if section is not None:
            sections[question.name] = section
            on_section(section)

    questions = [each for each in reported() if not (result.lacks_times and each.name in OF_QUEUES)]
    _collect(result)
    for question in questions:
        if question.name in SHARE_VISITS:
            answer(question)
    placed.whole.forget("visits")
    _collect(result)
    for question in questions:
        if question.name not in SHARE_VISITS:
            answer(question)
    return [sections[question.name] for question in questions if question.name in sections]


def _collect(result: SplitResult) -> None:
    """Collect garbage, which may hold frames of all requests."""
    if result.requests >= LARGE:
        gc.collect()
