"""The section of ``split``: the verdict and two small tables, as a notebook shows them."""

from __future__ import annotations

from sojourn.analyses.split.pictures import split_pictures
from sojourn.analyses.split.result import SplitResult
from sojourn.analyses.split.table import audit_sentence, incident_rows, incident_title, read_sentence
from sojourn.model.components import COMPONENTS
from sojourn.model.figures import Summary
from sojourn.model.formatting import group_name, milliseconds, share_of_time, time_in_ms
from sojourn.model.verdict import CAUSES
from sojourn.present.display import lay_out
from sojourn.present.section import Section, Table

MEASURED = (
    "Queueing delay: from the stamp nginx sent to the app's own start. Service time: from there to the response "
    "headers."
)
INFERRED = (
    "Inferred queueing delay: from the instant the proxy turned to the backend to the begin of the service, which is "
    "inferred. Service time: from there to the end of the backend's response."
)
FIGURES = ("mean", "p50", "p90", "p99", "max")
QUEUEING_AND_SERVICE = {*CAUSES["queueing"], "service_time"}


@lay_out.register(SplitResult)
def split_section(result: SplitResult) -> Section:
    """Return the section of ``split``: the verdict, where the time went, and the busiest of each group."""
    return Section(
        key="split",
        title="Where the time went",
        sentence=result.verdict.sentence if result.requests else "There are no requests to split.",
        measures=_measures(result),
        failures=tuple(result.failed_checks) if result.requests else (),
        tables=(_components(result), *_incident(result), *_groups(result)) if result.requests else (),
        pictures=tuple(split_pictures(result)),
        notes=(f"{read_sentence(result)}.", *((audit_sentence(result),) if result.requests else ()), *result.notes),
    )


def _measures(result: SplitResult) -> str:
    if not result.mark:
        return MEASURED
    return INFERRED if set(result.sources) <= {"inferred", "none"} else f"{MEASURED} {INFERRED}"


def _components(result: SplitResult) -> Table:
    total = sum(result.means.values())
    within = result.uncertainty
    rows = [("response time", "", *_figures(result.response_time, within))]
    parts = ("queueing_delay", "service_time", *(name for name in COMPONENTS if name not in QUEUEING_AND_SERVICE))
    for name in parts:
        summary = result.components[name]
        if name in ("queueing_delay", "service_time") or any(abs(summary[key] or 0.0) >= 1e-3 for key in FIGURES):
            share = (
                result.means[name] / total if name in result.means and total and summary["mean"] is not None else None
            )
            label = name.replace("_", " ") + (result.mark if name in ("queueing_delay", "service_time") else "")
            share = result.queueing_of_all if name == "queueing_delay" else share
            rows.append((label, share_of_time(share, summary["mean"], within), *_figures(summary, within)))
        if name == "service_time" and result.held is not None:
            rows.append(("worker held", "", *_figures(result.held.time, within)))
    return Table(("ms", "share", *FIGURES), tuple(rows))


def _incident(result: SplitResult) -> tuple[Table, ...]:
    if result.incident is None:
        return ()
    keys = ("mean", "p50", "p99")
    headings = ("", *(f"{key}, {part}" for key in keys for part in ("incident", "whole")))
    rows = tuple(
        (name, *(time_in_ms(part[key], result.uncertainty) for key in keys for part in (inside, whole)))
        for name, inside, whole in incident_rows(result)
    )
    return (Table(headings, rows, title=incident_title(result)),)


def _figures(summary: Summary, uncertainty: float) -> tuple[str, ...]:
    return tuple(time_in_ms(summary[key], uncertainty) for key in FIGURES)


def _groups(result: SplitResult) -> list[Table]:
    tables = []
    for group, rows in result.by.items():
        if len(rows) < 2:
            continue
        cells = tuple(
            (
                group_name(row[group]),
                f"{row['requests']:,}",
                milliseconds(row["response_time"]["p99"]),  # type: ignore[index]
                time_in_ms(row["queueing_delay"]["p99"], result.uncertainty),  # type: ignore[index]
                milliseconds(row["service_time"]["p99"]),  # type: ignore[index]
                share_of_time(
                    row["queueing_share"],  # type: ignore[arg-type]
                    row["queueing_delay"]["mean"],  # type: ignore[index]
                    result.uncertainty,
                ),
            )
            for row in rows
        )
        headings = (group, "requests", "response p99", "queueing p99", "service p99", "queueing share")
        tables.append(Table(headings, cells, title=f"By {group}, ms", more=max(result.by_total[group] - len(rows), 0)))
    return tables
