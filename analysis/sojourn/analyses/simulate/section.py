"""A simulation, laid out for people."""

from __future__ import annotations

import math

from sojourn.analyses.simulate.analysis import SimulationResult
from sojourn.model.formatting import counted, duration, milliseconds, percent
from sojourn.present.display import lay_out
from sojourn.present.section import Chart, Picture, Section, Table

MEASURES = (
    "Wait: from a request's arrival to when a worker takes it, or its client gives up. Sojourn: from its arrival to "
    "its answer, or its last failure."
)
COLUMNS = ("mean", "p50", "p90", "p99", "p999", "max")
OUTCOMES = {
    "served": "answered in time",
    "timed_out_waiting": "gave up before a worker took it",
    "timed_out_served": "gave up while it was served",
    "dropped": "dropped by the discipline",
    "rejected": "rejected, no place to wait",
}


@lay_out.register(SimulationResult)
def simulate_section(found: SimulationResult) -> Section:
    """The section of ``simulate``."""
    return Section(
        key="simulate",
        title="Simulated queue",
        sentence=sentence(found),
        measures=MEASURES,
        failures=tuple(_failures(found)),
        tables=tuple(_tables(found)),
        pictures=_pictures(found),
        notes=tuple(_notes(found)),
    )


def sentence(found: SimulationResult) -> str:
    """The finding in one sentence."""
    mean = found.wait["mean"]
    if mean is None:
        return f"Every request was rejected, of {found.counted:,}."
    said = f"Mean wait {_ms(mean)}"
    if found.mean_wait:
        said += f" ± {_ms(found.mean_wait.half)} (95 %)"
    said += f" at {percent(found.utilisation)} utilisation"
    if found.counts["served"] < found.counted:
        said += f", {percent(found.counts['served'] / found.counted)} answered in time"
    beside = found.theory or found.approximation
    if beside is None or not math.isfinite(beside.mean_wait):
        return f"{said}."
    verb = "says" if found.theory else "comes to"
    said += f"; {beside.name} {verb} {_ms(beside.mean_wait)}"
    return f"{said}, {percent(abs(mean / beside.mean_wait - 1))} away." if beside.mean_wait > 0 else f"{said}."


def _ms(seconds: float) -> str:
    return f"{milliseconds(seconds)} ms"


def _failures(found: SimulationResult) -> list[str]:
    if found.offered < 1 or found.counts["rejected"] or found.counts["dropped"]:
        return []
    if math.isinf(found.offered):
        return [
            "All requests come at the same instant: this is no queue that goes on, and figures are those of one burst."
        ]
    return [
        f"{percent(found.offered)} of what the workers can serve is offered: the queue grows as long as requests come, "
        "and figures may depend on how long that is."
    ]


def _tables(found: SimulationResult) -> list[Table]:
    lines = [("wait", found.wait), ("sojourn", found.sojourn)]
    if found.answered:
        lines.append(("of those answered", found.answered))
    rows = [(name, *(milliseconds(summary[column]) for column in COLUMNS)) for name, summary in lines]
    if found.theory and found.theory.wait:
        theory = {"mean": found.theory.mean_wait, **found.theory.wait}
        rows.append((f"wait by {found.theory.name}", *(milliseconds(theory.get(column)) for column in COLUMNS)))
    headings = ("ms", "mean", "p50", "p90", "p99", "p99.9", "max")
    tables = [Table(headings, tuple(rows))]
    if found.counts["served"] < found.counted:
        outcomes = tuple(
            (words, f"{found.counts[status]:,}", percent(found.counts[status] / found.counted))
            for status, words in OUTCOMES.items()
            if found.counts[status]
        )
        tables.append(Table(("outcome", "requests", "share"), outcomes))
    return tables


def _pictures(found: SimulationResult) -> tuple[Picture, ...]:
    def chart() -> Chart:
        from sojourn.analyses.simulate.charts import wait_chart  # noqa: PLC0415 - Altair takes its time to load

        return wait_chart(found)

    caption = "Each point: the share of requests that wait longer than so many seconds; a straight line is exponential."
    return (Picture("simulate-wait", "Waits", caption, chart, reading(found)),) if found.wait["max"] else ()


def reading(found: SimulationResult) -> str:
    """The median and the p99 of the wait, and theory's beside it."""
    wait = found.wait
    text = (
        f"Half of the requests waited {duration(wait['p50'])} or less, one in a hundred {duration(wait['p99'])} or "
        f"more, one {duration(wait['max'])}"
    )
    theory = found.theory.wait.get("p99") if found.theory and found.theory.wait else None
    beside = f"; {found.theory.name} has {duration(theory)} at p99" if found.theory and theory is not None else ""
    return f"{text}{beside}."


def _notes(found: SimulationResult) -> list[str]:
    notes = []
    if found.theory is None and found.reason:
        notes.append(f"No closed form beside it: {found.reason}.")
    if found.theory and found.theory.blocking is not None:
        blocked = found.counts["rejected"] / found.counted
        notes.append(f"Rejected {percent(blocked)}; {found.theory.name} says {percent(found.theory.blocking)}.")
    if found.wasted > 0:
        notes.append(
            f"{duration(found.wasted)} of {duration(found.busy)} of work "
            f"({percent(found.wasted / found.busy)}) were for clients who had given up."
        )
    if found.attempts > found.requests:
        notes.append(f"{counted(found.attempts, 'attempt')} for {counted(found.requests, 'request')}.")
    return notes + [note[0].upper() + note[1:] + "." for note in found.notes]
