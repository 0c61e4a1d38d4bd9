"""The split as text for a terminal: verdict, figures, audit, notes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sojourn.analyses.audit.result import IDENTITY_TOLERANCE
from sojourn.analyses.split.result import SplitResult
from sojourn.components.clock_offsets.correction import plain_clocks
from sojourn.model.components import COMPONENTS
from sojourn.model.figures import FIGURES, Summary
from sojourn.model.formatting import (
    counted,
    duration,
    formatted,
    group_name,
    milliseconds,
    percent,
    printable,
    share_of_time,
    tally,
    time_in_ms,
)
from sojourn.model.verdict import CAUSES, queueing_seconds
from sojourn.present.fitted_table import FittedTable

MOST_ROWS = 10
# Two lines each, so that the table of a group is at most 80 columns wide.
GROUP_HEADINGS = (
    "\nrequests", "response\np50", "\np99", "queueing\nmean", "\np99", "service\nmean", "\np99", "queueing\nshare",
)  # fmt: skip
STATIONARITY = {
    True: "no trend found",  # codespell:ignore found
    False: "NOT stationary",
    None: "stationarity unknown",
}
CAUSE_STYLE = {"healthy": "bold green", "queueing": "bold red", "retries": "bold red"}


def split_table(result: SplitResult) -> RenderableType:
    """Return the output of ``sojourn split`` as one rich renderable."""
    return Group(*_parts(result))


def _parts(result: SplitResult) -> Iterator[RenderableType]:
    verdict = Text(result.verdict.sentence, style=CAUSE_STYLE.get(result.verdict.cause, "bold"))
    if result.lacks_times:
        yield verdict
    for failure in result.failed_checks:
        yield Text(f"AUDIT  {printable(failure, 400)}", style="bold yellow")
    if not result.lacks_times:
        yield verdict
    yield Text(read_sentence(result), style="dim")
    yield Text()
    yield _components(result)
    if result.incident is not None:
        yield Text()
        yield _incident(result)
    for group, rows in result.by.items():
        if len(rows) > 1 or (rows and rows[0][group] is not None):
            yield Text()
            yield _grouped(result, group, rows)
    yield Text()
    yield Text(audit_sentence(result), style="dim")
    clocks = clock_sentence(result)
    if clocks:
        yield Text(clocks, style="dim")
    for note in result.notes:
        yield Text(f"NOTE  {printable(note, 600)}", style="yellow")


def read_sentence(result: SplitResult) -> str:
    """Return the number of requests, their time window, their sources, and the refused lines."""
    records = result.records
    names = ", ".join(printable(name, 60) for name in result.names[:3])
    more = f" and {len(result.names) - 3} more" if len(result.names) > 3 else ""
    text = counted(result.requests, "request")
    if result.window:
        seconds = (result.window[1] - result.window[0]).total_seconds()
        text += f" in {duration(seconds)} from {result.window[0]:%Y-%m-%d %H:%M:%S} UTC"
    text += f" ({names}{more})"
    if records.rejected:
        text += f"; {records.rejected:,} of {counted(records.read, 'line')} refused: {tally(records.reasons)}"
    if records.dropped:
        text += f"; values dropped, their requests are in the figures: {tally(records.dropped)}"
    return text


def audit_sentence(result: SplitResult) -> str:
    """Return the checks in one line."""
    audit = result.audit
    parts = [] if result.requests else ["nothing to audit"]
    if audit.identity_max_error > IDENTITY_TOLERANCE:
        parts.append(f"the components miss the response time by up to {duration(audit.identity_max_error)}")
    if audit.little_ratio is not None:
        parts.append(f"Little's law N/λR = {formatted(audit.little_ratio, '.3f')}")
    parts.append(STATIONARITY[audit.stationary])
    if audit.negative.get("queue"):
        parts.append(f"{counted(audit.negative['queue'], 'negative queueing delay')}")
    if audit.app_known is not None:
        by_duration = audit.known.total.by_duration / audit.known.total.answered
        alone = f" ({percent(by_duration)} by durations alone)" if by_duration else ""
        how = "measured" if audit.known.total.inferred else "known"
        parts.append(f"queueing delay and service time {how} for {percent(audit.app_known)} of the answers{alone}")
        if audit.known.total.inferred:
            parts.append(
                f"inferred for {percent(audit.known.total.inferred / audit.known.total.answered)} of the answers"
            )
    if audit.known.total.impossible:
        parts.append(f"{counted(audit.known.total.impossible, 'impossible queueing delay')} not used")
    if audit.known.total.late_stamps:
        parts.append(f"{counted(audit.known.total.late_stamps, 'late stamp')} not used")
    if audit.duplicates:
        parts.append(
            f"{counted(audit.duplicates, 'record delivered again counts', 'records delivered again count')} once"
        )
    if audit.upgraded:
        parts.append(f"{counted(audit.upgraded, 'upgraded connection')} (101) left out")
    if result.wasted:
        parts.append(f"{duration(result.wasted)} of work for clients already gone")
    return "Audit: " + "; ".join(parts) + "."


def clock_sentence(result: SplitResult) -> str:
    """Return the offsets of the app's clocks that are larger than their uncertainty, or that change."""
    if result.clock.is_empty():  # of a frame, whose clocks are unknown
        return ""
    changed = (pl.col("drift") != 0) | (pl.col("segments").list.len() > 1)
    candidates = result.clock.filter((pl.col("offset").abs() > pl.col("uncertainty")) | changed)
    offsets = [
        _clock(row)
        for row in plain_clocks(candidates)
        if abs(row["offset"]) > row["uncertainty"] or row["drift"] or row["steps"]
    ]
    more = f" and {len(offsets) - MOST_ROWS:,} more" if len(offsets) > MOST_ROWS else ""
    return "Clocks (app less nginx, corrected for): " + ", ".join(offsets[:MOST_ROWS]) + more if offsets else ""


def _clock(row: dict[str, Any]) -> str:
    first = row["segments"][0]
    text = (
        f"{printable(row['upstream'], 40)} {formatted(first['offset'] * 1000, '+.1f')} ± "
        f"{formatted(first['uncertainty'] * 1000, '.1f')} ms"
    )
    if row["drift"]:
        text += f", gaining {formatted(row['drift'] * 1e6, '+.0f')} ppm"
    for step in row["steps"][:3]:
        text += f", set by {formatted(step['change'] * 1000, '+,.1f')} ms at {step['at']:%H:%M:%S} UTC"
    return text + (f" and {counted(len(row['steps']) - 3, 'time')} more" if len(row["steps"]) > 3 else "")


def _components(result: SplitResult) -> Table:
    gap = 1 if result.mark else 2  # the names are longer
    table = Table(title="ms", title_justify="left", title_style="dim", box=None, pad_edge=False, padding=(0, gap, 0, 0))
    table.add_column("", no_wrap=True)
    for heading in ("share", "mean", "p50", "p90", "p99", "p99.9", "max", "slowest 1 %"):
        table.add_column(heading, justify="right", no_wrap=heading[0] == "p")
    total = sum(result.means.values())
    tail: dict[str, float] = result.tail["p99"]["components"]  # type: ignore[assignment]
    table.add_row(
        "response time",
        *_figures(result, 1.0 if total else None, result.response_time, sum(tail.values())),
        style="bold",
    )
    has_waits = result.tail["p99"]["queueing_share"] is not None
    table.add_row(
        f"queueing delay{result.mark}",
        *_figures(
            result,
            result.queueing_of_all,
            result.components["queueing_delay"],
            queueing_seconds(tail) if has_waits else None,
        ),
        style="red",
    )
    # Connecting takes no time even under overload (the kernel accepts): then queue is the whole delay.
    parted = any(_worth_a_row(result.components[name]) for name in ("proxy_queue", "connect"))
    hidden = set() if parted else set(CAUSES["queueing"])
    for name in COMPONENTS:
        summary = result.components[name]
        if name in hidden or not _worth_a_row(summary):
            continue
        style = "cyan" if name == "service_time" else ""
        label = name.replace("_", " ") + (result.mark if name == "service_time" else "")
        label = f"  {label}" if name in CAUSES["queueing"] else label
        share = result.means[name] / total if total else None
        table.add_row(label, *_figures(result, share, summary, tail[name]), style=style)
        if name == "service_time" and result.held is not None:
            table.add_row("  worker held", *_figures(result, None, result.held.time, None), style="dim")
    return table


def incident_rows(result: SplitResult) -> list[tuple[str, Summary, Summary]]:
    """Return name, figures of the incident and of the whole."""
    incident = result.incident or {}
    wholes = {"response time": result.response_time} | {
        name.replace("_", " "): result.components[name] for name in ("queueing_delay", "service_time")
    }
    return [(name, incident[name.replace(" ", "_")], whole) for name, whole in wholes.items()]


def incident_title(result: SplitResult) -> str:
    """Return the heading of the figures of the incident."""
    incident = result.audit.incident
    requests = counted(result.incident["requests"], "request") if result.incident else ""
    return f"ms; incident: {requests} {'' if incident is None else incident.interval}"


def _incident(result: SplitResult) -> Table:
    table = Table(
        title=incident_title(result), title_justify="left", title_style="dim", box=None, pad_edge=False,
        padding=(0, 2, 0, 0),
    )  # fmt: skip
    headings = [f"{name}\n{part}" for name in ("mean", "p50", "p99") for part in ("incident", "whole")]
    table.add_column("", no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for name, inside, whole in incident_rows(result):
        figures = [
            time_in_ms(part[key], result.uncertainty) for key in ("mean", "p50", "p99") for part in (inside, whole)
        ]
        table.add_row(name + (result.mark if name != "response time" else ""), *figures)
    return table


def _worth_a_row(summary: Summary) -> bool:
    """Return whether a component exceeds nginx's resolution in any figure."""
    figures = (summary["mean"], summary["p50"], summary["p99"], summary["max"])
    return any(value is not None and abs(value) > 0.002 for value in figures)


def _figures(result: SplitResult, share: float | None, summary: Summary, tail: float | None) -> list[str]:
    values = [time_in_ms(value, result.uncertainty) for value in (*(summary[name] for name in FIGURES), tail)]
    return [share_of_time(share, summary["mean"], result.uncertainty), *values]


def _grouped(result: SplitResult, group: str, rows: list[dict[str, object]]) -> FittedTable:
    cells = []
    for row in rows[:MOST_ROWS]:
        response, queueing, service = row["response_time"], row["queueing_delay"], row["service_time"]
        cells.append([
            group_name(row[group]),
            f"{row['requests']:,}",
            milliseconds(response["p50"]), milliseconds(response["p99"]),  # type: ignore[index]
            time_in_ms(queueing["mean"], result.uncertainty), time_in_ms(queueing["p99"], result.uncertainty),  # type: ignore[index]
            milliseconds(service["mean"]), milliseconds(service["p99"]),  # type: ignore[index]
            share_of_time(row["queueing_share"], queueing["mean"], result.uncertainty),  # type: ignore[arg-type,index]
        ])  # fmt: skip
    more = result.by_total[group] - len(cells)
    return FittedTable((f"\nby {group}", *GROUP_HEADINGS), cells, more=more, gap=1)
