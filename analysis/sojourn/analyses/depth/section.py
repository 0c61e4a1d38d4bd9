"""The section of ``depth``."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import polars as pl

from sojourn.analyses.depth.analysis import ALL, DepthResult
from sojourn.analyses.depth.pictures import depth_pictures
from sojourn.analyses.depth.run import depth
from sojourn.analyses.question import ReportContext
from sojourn.analyses.queue_source import slots
from sojourn.model.formatting import counted, duration, milliseconds, percent, printable
from sojourn.model.one_worker import doubt, holding, joined, unnamed
from sojourn.present.display import lay_out
from sojourn.present.section import Section, Table
from sojourn.timeline.classes import NO_VALUE, OTHER
from sojourn.timeline.phases import AFTER, BODY, READ, SERVICE

MEASURES = (
    "Waiting: from the instant nginx turned to the backend to the app's start. In service: from there until the worker "
    "was free again. Averages are over time, unless they say on arrival."
)
ROWS = 10  # windows of the table over time
UNLIKE = 0.2  # part of the larger average by which averages over time and over arrivals differ before a note says so
FEW = 0.1  # requests: averages below this are not compared
LATER = 0.05  # s after the headers, over all requests, from which on a note says so
AFTER_HEADERS = {BODY: "by bodies", AFTER: "after answers", READ: "while they read requests"}
BUSY = 0.9  # utilisation above which a backend counts as full


@lay_out.register(DepthResult)
def depth_section(result: DepthResult) -> Section:
    """Return the section of ``depth``."""
    return Section(
        key="depth",
        title="Queue depth and worker utilisation",
        sentence=sentence(result),
        measures=MEASURES,
        failures=tuple(_failures(result)),
        tables=_tables(result) if result.requests else (),
        pictures=depth_pictures(result),
        notes=tuple(_notes(result)),
    )


def sentence(result: DepthResult) -> str:
    """Return the finding in one sentence."""
    if not result.requests:
        return "The queue is unknown: no request reports how long it waited."
    if result.queue_source.filtered:
        return result.queue_source.filtered[0]
    overall = result.overall
    conditions = ", ".join(f"{column} = {printable(str(value), 60)}" for column, value in result.where.items())
    text = (
        f"On average {overall['waiting']:.2f} requests{conditions and f' with {conditions}'} waited and "
        f"{overall['in_service']:.2f} of {overall['workers']} workers were busy{conditions and ' with all requests'} "
        f"({_busy(overall)})"
    )
    if result.peak is None or result.peak["waiting"] < 1:
        return text + "; no request waited."
    at, where = result.peak["at"], printable(result.peak["upstream"] or NO_VALUE, 60)
    least = "at least " if overall["lower_bound"] else ""
    busy = "" if result.peak["busy"] is None else f", with {least}{percent(result.peak['busy'])} of its workers busy"
    return (
        f"{text}; the deepest queue was {counted(result.peak['waiting'], 'request')} at {where}, at {at:%H:%M:%S} "
        f"UTC{busy}."
    )


def _busy(figures: dict[str, Any], lower_bound: str = "at least ") -> str:
    return (lower_bound if figures["lower_bound"] else "") + percent(figures["utilisation"])


def _at_peak(row: dict[str, Any]) -> str:
    """Return the utilisation of a backend at its deepest queue."""
    share = row["peak_utilisation"]
    return "–" if share is None else ("≥ " if row["lower_bound"] else "") + percent(share)


def _failures(result: DepthResult) -> list[str]:
    missing = result.left_out.get("no_wait", 0)
    failures = []
    if result.requests and missing > 0.01 * (result.requests + missing):
        failures.append(
            f"{missing:,} of {counted(result.requests + missing, 'request')} have unknown wait and service time: "
            "queues were deeper and workers busier than shown. Add the app's spans (--spans)."
        )
    if result.silence is not None:
        failures.append(
            f"{result.silence[0].upper()}{result.silence[1:]}. If lines are missing, workers were busier and queues "
            "deeper than shown."
        )
    elif result.overall["lower_bound"] and not result.queue_source.moved:
        failures.append(
            "Workers were held for longer than the services in this log show: utilisation and requests in service are "
            "lower bounds. `sojourn blame` names what fits; the app's spans (--spans) contain the time after the "
            "headers."
        )
    failures += result.queue_source.moved
    return failures + unnamed(result.workers)


def _tables(result: DepthResult) -> tuple[Table, ...]:
    backends = Table(
        ("backend", "workers", "busy", "at its peak", "waiting", "on arrival", "most", "mean wait (ms)"),
        tuple(
            (
                row["upstream"] or NO_VALUE, f"{row['workers']}", _busy(row, "≥ "), _at_peak(row),
                f"{row['waiting']:.2f}",
                f"{row['seen_waiting']:.2f}", f"{row['most_waiting']:,}", milliseconds(row["mean_wait"]),
            )
            for row in result.backends
        ),
        title="By backend",
    )  # fmt: skip
    on_arrival = Table(
        ("waiting on arrival", "requests", "share", "mean wait (ms)"),
        tuple(
            (
                _between(row["low"], row["high"]),
                f"{row['requests']:,}",
                percent(row["share"]),
                milliseconds(row["wait"]),
            )
            for row in result.seen.iter_rows(named=True)
        ),
        title="Queue length on arrival",
        shown=16,
    )
    over_time = Table(
        ("from (UTC)", "arrivals", "waiting", "most", "in service", "busy"),
        tuple(_coarse(result)),
        title="Over time, all backends",
        shown=ROWS + 2,
    )
    return backends, on_arrival, over_time


def _between(low: int, high: int) -> str:
    return f"{low:,}" if low == high else f"{low:,}–{high:,}"


def _coarse(result: DepthResult) -> list[tuple[str, ...]]:
    """Return at most ``ROWS`` + 1 rows: averages over groups of neighbouring windows, weighted by their length."""
    whole = result.over_time.filter(pl.col("upstream") == ALL)
    if result.window is None:
        return []
    begin, width = pl.col("begin"), timedelta(seconds=result.width)
    covered = pl.min_horizontal(begin + width, pl.lit(result.window[1])) - pl.max_horizontal(
        begin, pl.lit(result.window[0])
    )
    mean = [(pl.col(name) * pl.col("length")).sum() / pl.col("length").sum() for name in ("waiting", "in_service")]
    together = -(-len(whole) // ROWS)
    rows = (
        whole.with_columns(length=pl.max_horizontal(covered.dt.total_microseconds(), pl.lit(1)))
        .with_row_index("row")
        .group_by(pl.col("row") // together, maintain_order=True)
        .agg(begin.first(), pl.col("arrivals").sum(), *mean, pl.col("most_waiting").max())
    )
    return [
        (
            f"{row['begin']:%H:%M:%S}", f"{row['arrivals']:,}", f"{row['waiting']:.2f}", f"{row['most_waiting']:,}",
            f"{row['in_service']:.2f}", percent(row["in_service"] / max(result.overall["workers"], 1)),
        )
        for row in rows.iter_rows(named=True)
    ]  # fmt: skip


def _notes(result: DepthResult) -> list[str]:
    notes = [*result.queue_source.marks, *result.queue_source.gaps, *doubt(result.workers, "utilisation")]
    notes += slots(result.workers)
    notes += [*joined(result.workers), *holding(result.workers)]
    unlike = []
    for row in () if result.where else result.backends:  # averages of some and of all are not comparable
        time, arrivals = row["in_system"], row["seen_in_system"]
        if (
            row["upstream"] != OTHER
            and max(time, arrivals) > FEW
            and abs(time - arrivals) > UNLIKE * max(time, arrivals)
        ):
            unlike.append((abs(time - arrivals), row["upstream"] or NO_VALUE, time, arrivals))
    if unlike:
        _, name, time, arrivals = max(unlike)
        how = "in bursts, when the queue was long" if arrivals > time else "in turn, when the queue was short"
        notes.append(
            f"Arrivals are not random: at {printable(name, 60)} a request finds {arrivals:.2f} requests on average; "
            f"the average over time is {time:.2f}. Requests arrived {how}: formulas for Poisson arrivals do not hold."
        )
    if (result.overall["gone"] or 0.0) > 0.01:
        notes.append(
            f"On average {result.overall['gone']:.2f} requests in the queues were abandoned by nginx or the client: "
            "they are not counted as waiting, but the app still serves them in their turn."
        )
    full = [row["upstream"] or NO_VALUE for row in result.backends if row["utilisation"] > BUSY]
    if full:
        notes.append(f"Busy for more than {percent(BUSY)} of the time: {', '.join(full[:5])}.")
    later = {phase: seconds for phase, seconds in result.held.items() if phase != SERVICE and seconds > LATER}
    if later:
        parts = " and ".join(f"{duration(seconds)} {AFTER_HEADERS[phase]}" for phase, seconds in later.items())
        notes.append(f"Workers were held for {parts}, beyond {duration(result.held[SERVICE])} until the headers.")
    if result.silent:
        notes.append(
            f"{counted(result.silent, 'request has', 'requests have')} no service time: counted as in service until "
            "the answer began."
        )
    return notes


def report_section(context: ReportContext) -> Section:
    """Return the section of a report."""
    return depth_section(depth(context.requests, workers=context.workers))
