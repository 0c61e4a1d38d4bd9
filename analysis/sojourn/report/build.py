"""What a whole report holds beside the split: every analysis of the same requests, one section each."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from sojourn.analyses import reported
from sojourn.analyses.question import ReportContext
from sojourn.analyses.split.result import SplitResult
from sojourn.model.errors import SojournError
from sojourn.model.verdict import SLO
from sojourn.present.section import Section
from sojourn.readers.inputs import Source, stores_and_files
from sojourn.sources.traces import Traces, read_traces


def traces_of(sources: Sequence[Source], spans: Sequence[Source] | None) -> Traces | None:
    """The spans of files and run folders where they come from several services; None where there is nothing to follow.

    Raises:
        SojournError: a file cannot be read.
    """
    _, files = stores_and_files(sources)
    folders = [file for file in files if os.path.isdir(file) and any(Path(file).glob("spans.jsonl*"))]
    named = [*(spans or ()), *folders]
    traces = read_traces(named) if named else None
    return traces if traces is not None and traces.spans["service"].n_unique() > 1 else None


def sections_of(
    result: SplitResult,
    *,
    by: str = "route",
    workers: int | Mapping[str, int] | None = None,
    slo: float = SLO,
    before: SplitResult | None = None,
    traces: Traces | None = None,
    told: Callable[[str], None] = lambda _: None,
) -> list[Section]:
    """Every section there is something to say in, in the order to be read.

    An analysis that these requests do not allow says why in its place; it takes nothing from the others.

    Args:
        result: the split, with ``sojourn.analyses.report_columns()`` and ``by`` among the columns read.
        by: names victims and culprits, and divides wasted work and changes.
        workers: per backend; None: read off the worker values.
        slo: p99 of the response time that must hold, s.
        before: another split to compare with: what changed since.
        traces: spans of several services, as from ``sojourn.sources.traces.read_traces``.
        told: told the title of each analysis before it begins.
    """
    context = ReportContext(result, by, workers, slo, before, traces)
    found = []
    for question in reported():
        told(question.title)
        try:
            section = context.section(question)
        except SojournError as error:
            section = Section(question.name, question.title, f"Nothing to tell: {error}.")
        if section is not None:
            found.append(section)
    return found
