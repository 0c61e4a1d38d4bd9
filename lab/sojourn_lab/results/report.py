"""report.html of a run: its cases in a picture, the finding, the figures, the split of each case, the reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from sojourn import Requests
from sojourn.analyses.kernel.section import kernel_section
from sojourn.analyses.pcap.section import wire_section
from sojourn.analyses.split.result import SplitResult
from sojourn.analyses.split.run import split_requests
from sojourn.analyses.split.section import split_section
from sojourn.model.formatting import counted, duration
from sojourn.present.section import Section, Table
from sojourn.report.html import report_page

from sojourn_lab.errors import LabError
from sojourn_lab.results.analyses.recordings import Recordings
from sojourn_lab.results.case_picture import case_picture
from sojourn_lab.results.criteria import by_base
from sojourn_lab.results.findings import SENTENCE_END, findings, outcome, reference_sentences, void_sentence
from sojourn_lab.results.rows import (
    CONTRASTS,
    CRITERIA,
    PREDICTIONS,
    TARGETS,
    Rows,
    contrast_rows,
    criteria_rows,
    prediction_rows,
    reference_rows,
    result_caption,
    result_rows,
    target_rows,
)
from sojourn_lab.results.run_schema import Run, seconds_between

MOST_KERNELS = 12
"""The most sets of servers whose queues the report shows, from the first; kernel.jsonl has them all."""


def write_report(
    run: Run, requests: Requests | None, folder: Path, *, name: str, recordings: Recordings | None = None
) -> None:
    """Write report.html into the run's folder; LabError if that fails. `name` is the folder's final name.

    A run of one case has the split of its whole log. Several cases are several loads: each has its own split and audit,
    and there is no split over all of them.
    """
    try:
        several = len(by_base(run.cases)) > 1
        result = None if requests is None else split_requests(requests, by=("service", "upstream"))
        if result is not None:
            result.names = (name,)
        splits = {} if requests is None or not several else case_splits(run, requests)
        picture = case_picture(run, splits)
        sections = [] if recordings is None else recording_sections(run, recordings, result)
        report_page(
            None if several else result,
            title=run.scenario.title,
            lead=run_section(run),
            opening=() if picture is None else (picture,),
            sections=[*sections, *case_sections(splits), about_section(run), *reference_sections(run)],
        ).write(folder / "report.html")
    except Exception as error:
        raise LabError(f"the report of the run failed: {type(error).__name__}: {error}") from error


def case_splits(run: Run, requests: Requests) -> dict[str, list[SplitResult]]:
    """Return case -> the splits of its measured windows, one per round; cases without requests are left out."""
    splits: dict[str, list[SplitResult]] = {}
    for case in run.cases:
        since, until = (datetime.fromisoformat(each).timestamp() for each in (case.window.since, case.window.until))
        result = split_requests(requests, since=since, until=until, where={"service": case.name})
        if result.requests:
            result.names = (case.name,)
            splits.setdefault(case.base or case.name, []).append(result)
    return splits


def case_sections(splits: Mapping[str, Sequence[SplitResult]]) -> list[Section]:
    """Return one section with the split and the audit of each case; of several rounds, the first."""
    inner = tuple(
        replace(split_section(rounds[0]), key=f"case-{number}", title=name, pictures=())
        for number, (name, rounds) in enumerate(splits.items(), 1)
    )
    sentence = "Each case has a load of its own, so each has a split and an audit of its own."
    return [Section(key="each", title="Case by case", sentence=sentence, inner=inner)] if inner else []


def reference_sections(run: Run) -> list[Section]:
    """Return the comparison with the scenario's reference; none if the reference has no figures and no note.

    If the scenario has its own columns, they hold the reference's figures, and the section has no table.
    """
    about = run.scenario
    rows = reference_rows(run)
    # The table holds the figures of each case's sentence, so only the reference's note is shown.
    if about.reference_note:
        texts = SENTENCE_END.split(about.reference_note)
    elif rows[1]:
        texts = reference_sentences(about, run.cases) or [
            f"The {about.reference_name} has figures for {counted(len(rows[1]), 'mean')}."
        ]
    elif about.reference:
        texts = [f"Figures in ( ) are the {about.reference_name}'s."]
    else:
        return []
    if about.reference_source:
        texts.append(f"Source of the {about.reference_name}'s figures: {about.reference_source}.")
    return [
        Section(
            key="reference",
            title=f"Comparison with the {about.reference_name}",
            sentence=texts[0],
            measures=" ".join(texts[1:]),
            tables=(_table("", rows, 2),) if rows[1] else (),
        )
    ]


def recording_sections(run: Run, recordings: Recordings, result: SplitResult | None) -> list[Section]:
    """Return the sections of the whole run's packets and of the kernel for each set of servers, where recorded."""
    sections = [wire_section(recordings.wire(result))] if recordings.captures and result is not None else []
    several = recordings.by_servers()
    for number, samples in enumerate(several[:MOST_KERNELS], 1):
        kernel = recordings.kernel(samples)
        if kernel is None:
            continue
        section = kernel_section(kernel)
        if len(several) > 1:
            names = ", ".join(cases_between(run, samples[0].time, samples[-1].time))
            title = f"{section.title}: {names}" if names else section.title
            section = replace(section, key=f"{section.key}-{number}", title=title)
        sections.append(section)
    return sections


def cases_between(run: Run, since: float, until: float) -> list[str]:
    """Return the cases whose windows begin between two instants, unix s."""
    begins = {case.name: datetime.fromisoformat(case.window.since).timestamp() for case in run.cases}
    return [name for name, begin in begins.items() if since <= begin <= until]


def run_section(run: Run) -> Section:
    """Return the section of the run: the finding, the figures, and the criteria."""
    tables = [_table(f"Measured: {caption}" if (caption := result_caption(run)) else "Measured", result_rows(run))]
    tables += [_table(f"{TARGETS}, ms", targets, 2)] if (targets := target_rows(run))[1] else []
    tables += [_table(CONTRASTS, contrast_rows(run))] if run.contrasts else []
    tables += [_table(f"{PREDICTIONS}, ms", prediction_rows(run), 2)] if run.predictions else []
    tables += [_table(CRITERIA, criteria_rows(run), 3)] if run.criteria else []
    finding, *more = findings(run) or [run.scenario.question]
    return Section(
        key="run",
        title=run.scenario.title,
        sentence=finding if run.void else f"{finding} {outcome(run)}",
        measures=" ".join(more),
        failures=(*filter(None, [void_sentence(run)]), *run.faults),
        tables=tuple(tables),
    )


def about_section(run: Run) -> Section:
    """Return the section on the start and the duration of the run."""
    begun, took = run.started[:19].replace("T", " "), seconds_between(run.started, run.finished)
    sentence = (
        f"Started {begun} UTC; took {duration(took)}, of which {duration(run.spin_up)} to start the servers and"
        f" {duration(run.tear_down)} to stop them."
    )
    return Section(key="about", title="The run", sentence=sentence, measures=run.scenario.shows)


def _table(title: str, rows: Rows, text_columns: int = 1) -> Table:
    headings, cells = rows
    return Table(tuple(headings), tuple(tuple(row) for row in cells), title, text_columns, shown=len(cells))
