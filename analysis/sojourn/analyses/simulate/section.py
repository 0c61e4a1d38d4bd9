"""Layout of a simulation."""

from __future__ import annotations

import math
from functools import partial

from sojourn.analyses.simulate.analysis import SimulationResult
from sojourn.analyses.simulate.charts import wait_chart
from sojourn.model.formatting import counted, duration, milliseconds, percent
from sojourn.present.display import lay_out
from sojourn.present.section import Picture, Section, Table

MEASURES = (
    "Wait: from a request's arrival to when a worker takes it, or its client gives up. Sojourn: from its arrival to "
    "its answer, or its last failure."
)
COLUMNS = ("mean", "p50", "p90", "p99", "p999", "max")
OUTCOMES = {
    "served": "answered in time",
    "timed_out_waiting": "timed out while waiting",
    "timed_out_served": "timed out in service",
    "dropped": "dropped by the discipline",
    "rejected": "rejected, queue full",
}


@lay_out.register(SimulationResult)
def simulate_section(result: SimulationResult) -> Section:
    """Return the section of ``simulate``."""
    return Section(
        key="simulate",
        title="Simulated queue",
        sentence=sentence(result),
        measures=MEASURES,
        failures=tuple(_failures(result)),
        tables=tuple(_tables(result)),
        pictures=_pictures(result),
        notes=tuple(_notes(result)),
    )


def sentence(result: SimulationResult) -> str:
    """Return the mean wait, compared with theory, in one sentence."""
    mean = result.wait["mean"]
    if mean is None:
        return "Every request was rejected."
    text = f"Mean wait {_ms(mean)}"
    if result.mean_wait:
        text += f" ± {_ms(result.mean_wait.half)} (95 %)"
    text += f" at {percent(result.utilisation)} utilisation"
    if result.counts["served"] < result.counted:
        text += f", {percent(result.counts['served'] / result.counted)} answered in time"
    reference = result.theory or result.approximation
    if reference is None or not math.isfinite(reference.mean_wait):
        return f"{text}."
    verb = "predicts" if result.theory else "approximates"
    text += f"; {reference.name} {verb} {_ms(reference.mean_wait)}"
    if reference.mean_wait <= 0:
        return f"{text}."
    return f"{text}, a difference of {percent(abs(mean / reference.mean_wait - 1))}."


def _ms(seconds: float) -> str:
    return f"{milliseconds(seconds)} ms"


def _failures(result: SimulationResult) -> list[str]:
    if result.offered < 1 or result.counts["rejected"] or result.counts["dropped"]:
        return []
    if math.isinf(result.offered):
        return [
            "All requests arrive at the same instant: the figures describe a single burst, not a queue in steady state."
        ]
    return [
        f"The offered load is {percent(result.offered)} of what the workers can serve: the queue grows as long as "
        "requests arrive, and the figures may depend on the number of requests."
    ]


def _tables(result: SimulationResult) -> list[Table]:
    lines = [("wait", result.wait), ("sojourn", result.sojourn)]
    if result.answered:
        lines.append(("sojourn, answered in time", result.answered))
    rows = [(name, *(milliseconds(summary[column]) for column in COLUMNS)) for name, summary in lines]
    if result.theory and result.theory.wait:
        theory = {"mean": result.theory.mean_wait, **result.theory.wait}
        rows.append((f"wait by {result.theory.name}", *(milliseconds(theory.get(column)) for column in COLUMNS)))
    headings = ("ms", "mean", "p50", "p90", "p99", "p99.9", "max")
    tables = [Table(headings, tuple(rows))]
    if result.counts["served"] < result.counted:
        outcomes = tuple(
            (name, f"{result.counts[status]:,}", percent(result.counts[status] / result.counted))
            for status, name in OUTCOMES.items()
            if result.counts[status]
        )
        tables.append(Table(("outcome", "requests", "share"), outcomes))
    return tables


def _pictures(result: SimulationResult) -> tuple[Picture, ...]:
    if not result.wait["max"]:
        return ()
    caption = "The share of requests that wait longer than a time; a straight line is an exponential distribution."
    return (Picture("simulate-wait", "Waits", caption, partial(wait_chart, result), reading(result)),)


def reading(result: SimulationResult) -> str:
    """Return the median and the p99 of the wait, and the p99 of theory, in one sentence."""
    wait = result.wait
    text = (
        f"Half of the requests waited {duration(wait['p50'])} or less, one in a hundred {duration(wait['p99'])} or "
        f"more; the maximum is {duration(wait['max'])}"
    )
    theory = result.theory.wait.get("p99") if result.theory and result.theory.wait else None
    if result.theory and theory is not None:
        text += f"; {result.theory.name} predicts {duration(theory)} at p99"
    return f"{text}."


def _notes(result: SimulationResult) -> list[str]:
    notes = []
    if result.theory is None and result.reason:
        notes.append(f"No closed form: {result.reason}.")
    if result.theory and result.theory.blocking is not None:
        blocked = result.counts["rejected"] / result.counted
        notes.append(f"Rejected: {percent(blocked)}; {result.theory.name} predicts {percent(result.theory.blocking)}.")
    if result.wasted > 0:
        notes.append(
            f"{duration(result.wasted)} of {duration(result.busy)} of worker time "
            f"({percent(result.wasted / result.busy)}) were spent on requests that had timed out."
        )
    if result.attempts > result.requests:
        notes.append(f"Attempts: {result.attempts:,} for {counted(result.requests, 'request')}.")
    return notes + [note[0].upper() + note[1:] + "." for note in result.notes]
