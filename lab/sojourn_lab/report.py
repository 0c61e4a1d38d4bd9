"""report.html of a run: what was asked, what came of it beside the article's figures, then the log's split."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from sojourn_lab.analyses.recorded import Recorded
from sojourn_lab.document import Run, seconds_between
from sojourn_lab.errors import LabError
from sojourn_lab.rows import Rows, contrast_rows, criteria_rows, prediction_rows, result_rows, result_words

if TYPE_CHECKING:
    from sojourn import Requests
    from sojourn.explain.result import SplitResult
    from sojourn.sections.section import Section

MOST_KERNELS = 12
"""Sets of servers whose queues the report shows, the first ones; kernel.jsonl has them all."""


def write_report(
    run: Run, requests: Requests | None, folder: Path, *, name: str, recorded: Recorded | None = None
) -> None:
    """Write report.html into the run's folder; LabError if that fails. `name` is the folder's final name."""
    from sojourn.explain.split import split_requests  # noqa: PLC0415
    from sojourn.report import write_html  # noqa: PLC0415

    try:
        result = None if requests is None else split_requests(requests, by=("service", "upstream"))
        if result is not None:
            result.names = (name,)
            if result.by_total["service"] > 1:
                loads = result.by_total["service"]
                result.notes.insert(
                    0, f"This run holds {loads} loads one after another: read it by service, not as a whole."
                )
        sections = [] if recorded is None else recorded_sections(run, recorded, result)
        write_html(result, folder / "report.html", title=run.scenario.title, lead=run_section(run), sections=sections)
    except Exception as error:
        raise LabError(f"the report of the run failed: {type(error).__name__}: {error}") from error


def recorded_sections(run: Run, recorded: Recorded, result: SplitResult | None) -> list[Section]:
    """Return what the packets of the whole run tell, and the kernel for each set of servers; of what was recorded."""
    from sojourn.sections.kernel import kernel_section  # noqa: PLC0415
    from sojourn.sections.wire import wire_section  # noqa: PLC0415

    sections = [wire_section(recorded.wire(result))] if recorded.captures and result is not None else []
    several = recorded.by_servers()
    for number, samples in enumerate(several[:MOST_KERNELS], 1):
        kernel = recorded.kernel(samples)
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
    """Return the run itself, laid out: its outcome, its figures, what was written down beforehand, what was learned."""
    from sojourn.sections.section import Section, Table  # noqa: PLC0415

    def table(title: str, rows: Rows, text_columns: int = 1) -> Table:
        headings, cells = rows
        return Table(tuple(headings), tuple(tuple(row) for row in cells), title, text_columns, shown=len(cells))

    tables = [table(f"Measured: {words}" if (words := result_words(run)) else "Measured", result_rows(run))]
    tables += [table("Compared over the rounds", contrast_rows(run))] if run.contrasts else []
    tables += [table("Predicted, then made: response time, ms", prediction_rows(run), 2)] if run.predictions else []
    tables += [table("Written down beforehand (durations in s)", criteria_rows(run), 3)] if run.criteria else []
    about = run.scenario
    source = [f"{about.reference_name}: {about.reference_source}"] if about.reference_source else []
    begun, took = run.started[:19].replace("T", " "), seconds_between(run.started, run.finished)
    return Section(
        key="run",
        title=about.title,
        sentence=f"{about.question} {outcome(run)}",
        measures=about.shows,
        failures=(*(f"Void: {reason}" for reason in run.void_reasons), *filter(None, [run.advice]), *run.faults),
        tables=tuple(tables),
        notes=(
            *run.learned,
            *source,
            f"Begun {begun} UTC, done in {took:.0f} s, of which {run.spin_up:.1f} s to start everything and"
            f" {run.tear_down:.1f} s to stop it.",
        ),
    )


def outcome(run: Run) -> str:
    """Return in one sentence whether the run shows what it was to show."""
    kept = sum(each.passed for each in run.criteria)
    if run.void:
        return "This run is void: the generator or other programs decided its figures, not the system."
    if run.passed:
        return f"All {kept} criteria were met." if kept else "Nothing was to be met."
    return f"{len(run.criteria) - kept} of {len(run.criteria)} criteria were missed."
