"""Charts of blame, and the finding of each in one sentence."""

from __future__ import annotations

import functools

import polars as pl

from sojourn.analyses.blame.analysis import BlameResult
from sojourn.analyses.blame.charts import blame_matrix, blame_over_time
from sojourn.analyses.blame.charts_flow import blame_flow
from sojourn.model.formatting import duration, percent, printable
from sojourn.present.section import Picture
from sojourn.timeline.classes import NO_VALUE

NOTHING = 5e-4  # of all seconds: shares below this are shown as 0


def blame_pictures(result: BlameResult) -> tuple[Picture, ...]:
    """Return the matrix, the flow, and the accounts over time; empty without blamed seconds."""
    if result.blamed <= 0:
        return ()
    return (
        Picture(
            "blame-matrix",
            "Victims and culprits",
            "Each cell: the seconds that requests of its row waited for requests of its column.",
            functools.partial(blame_matrix, result),
            matrix_reading(result),
        ),
        Picture(
            "blame-flow",
            "Queueing delay from cause to victim",
            "Each ribbon runs from the cause of the delay (left) to the requests that waited (right); its width is its "
            "seconds. Imbalance: another backend had a free worker; dispatch: the request's own backend had one.",
            functools.partial(blame_flow, result),
            flow_reading(result),
        ),
        Picture(
            "blame-over-time",
            "Queueing delay over time, by cause",
            f"Seconds waited per {duration(result.width)}, at the end of the wait, by cause.",
            functools.partial(blame_over_time, result),
            over_time_reading(result),
        ),
    )


def matrix_reading(result: BlameResult) -> str:
    """Describe the largest cell of the matrix."""
    if result.matrix.is_empty():
        return "No queueing: 0 s."
    top = result.matrix.row(0, named=True)
    victim, culprit = _label(result.by, top["victim"]), _label(result.culprit_by, top["culprit"])
    return (
        f"{victim} waited {duration(top['seconds'])} for {culprit}, {percent(top['share'])} of all seconds charged to "
        "requests in service."
    )


def flow_reading(result: BlameResult) -> str:
    """Describe the shares of the largest culprit, of imbalance and of dispatch, and the largest victim."""
    if result.culprits.is_empty() or result.waited <= 0:
        return "No queueing: 0 s."
    top = result.culprits.row(0, named=True)
    most = result.victims.sort("waited", descending=True).row(0, named=True)
    return (
        f"Of {duration(result.waited)} of waiting {_label(result.culprit_by, top['culprit'])} caused "
        f"{percent(top['of_waited'])}, imbalance between backends {_share(result.imbalance, result.waited)} and "
        f"dispatch {_share(result.dispatch, result.waited)}; {_label(result.by, most['victim'])} bore "
        f"{percent(most['waited'] / result.waited)} of it."
    )


def over_time_reading(result: BlameResult) -> str:
    """Describe the window with the most queueing delay, and its main cause."""
    sums = result.over_time.group_by("begin").agg(pl.col("seconds").sum()).sort("seconds", "begin", descending=True)
    if sums.is_empty() or result.waited <= 0:
        return "No queueing: 0 s."
    begin, seconds = sums.row(0)
    within = result.over_time.filter(pl.col("begin") == begin).sort("seconds", descending=True).row(0, named=True)
    account = within["account"]
    cause = _label(result.culprit_by, within["culprit"]) if account == "blamed" else account
    return (
        f"Most waiting ended in the {duration(result.width)} from {begin:%H:%M:%S} UTC on: {duration(seconds)}, "
        f"{percent(seconds / result.waited)} of all, the largest part for {cause} "
        f"({percent(within['seconds'] / seconds)})."
    )


def _share(seconds: float, whole: float) -> str:
    """Format a share; shares within rounding error of 0 become 0."""
    return percent(seconds / whole if abs(seconds) > NOTHING * whole else 0.0)


def _label(column: str, name: str | None) -> str:
    if name is None or name == NO_VALUE:
        return f"requests without a known {column}" if name == NO_VALUE else "requests without a service time"
    text = printable(name, 60)
    return text if column == "route" else f"{column} {text}"
