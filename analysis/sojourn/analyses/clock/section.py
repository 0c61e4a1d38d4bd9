"""Lay out the clocks."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any

from sojourn.analyses.clock.analysis import ClockResult
from sojourn.analyses.clock.charts import offsets_over_time
from sojourn.analyses.clock.run import clock
from sojourn.analyses.question import ReportContext
from sojourn.components.clock_offsets.offsets import Pair
from sojourn.model.formatting import counted, formatted, milliseconds
from sojourn.model.groups import LARGEST
from sojourn.model.verdict import NETWORK_GAP
from sojourn.present.display import lay_out
from sojourn.present.section import Picture, Section, Table

MEASURES = (
    "From nginx's stamp to the app's start, which shows the offset and the wait; and from the app's answer to nginx's "
    "receipt of it, which shows the offset less the way back. Offsets are the app's clock less nginx's."
)
MOST_NAMES = 5


@lay_out.register(ClockResult)
def clock_section(result: ClockResult) -> Section:
    """Return the section of ``clock``."""
    return Section(
        key="clock",
        title="Clock offsets and drift",
        sentence=sentence(result),
        measures=MEASURES,
        failures=tuple(_failures(result)),
        tables=(_offsets(result),) if result.pairs else (),
        pictures=(
            Picture(
                "clock-over-time",
                "Offsets over time",
                "The app's clock less nginx's, as a line; the band is what the requests of each short window allow.",
                partial(offsets_over_time, result),
                reading(result),
            ),
        )
        if result.pairs
        else (),
        notes=tuple(_notes(result)),
    )


def sentence(result: ClockResult) -> str:
    """Return the result in one sentence."""
    if not result.pairs:
        return "The clocks are unknown: no request has both the app's delay and its service time."
    labels = names(result)
    pairs, idle = result.pairs, [row for row in result.pairs if row["idle"]]
    text = f"{len(idle)} of {counted(len(pairs), 'clock')} {'is' if len(idle) == 1 else 'are'} known"
    if idle:
        text += f" to ±{milliseconds(max(row['uncertainty'] for row in idle))} ms or better"
    if len(idle) < len(pairs):
        text += f", {len(pairs) - len(idle)} had too little idle time to tell"
    drifting = [row for row in pairs if row["drift"]]
    if drifting:
        fastest = max(drifting, key=lambda row: abs(row["drift"]))
        text += f"; {labels[_key(fastest)]} gains {formatted(fastest['drift'] * 1e6, '+.1f')} ppm on nginx's"
    stepped = [(abs(step["change"]), row, step) for row in pairs for step in row["steps"]]
    if stepped:
        _, row, step = max(stepped, key=lambda one: one[0])
        times = "once" if len(stepped) == 1 else counted(len(stepped), "time")
        text += f"; clocks were set {times}, {labels[_key(row)]} by {signed(step['change'])} ms"
        text += f" at {step['at']:%H:%M:%S} UTC"
    return text + "."


def names(result: ClockResult) -> dict[Pair, str]:
    """Return the names of pairs in messages: the backend alone where there is one proxy."""
    pairs = [(row["proxy"], row["upstream"]) for row in (*result.pairs, *result.silent)]
    several = len({proxy for proxy, _ in pairs}) > 1
    return {(proxy, upstream): f"{proxy or '–'} → " * several + (upstream or "–") for proxy, upstream in pairs}


def _key(row: dict[str, Any]) -> Pair:
    return row["proxy"], row["upstream"]


def signed(seconds: float) -> str:
    """Return seconds as milliseconds with their sign."""
    return formatted(seconds * 1000, "+,.1f")


def _offsets(result: ClockResult) -> Table:
    labels = names(result)
    largest = sorted(result.pairs, key=lambda row: -row["requests"])[:LARGEST]
    largest = largest if len(largest) < len(result.pairs) else result.pairs
    segments = [segment for row in result.pairs for segment in row["segments"]]
    days = {segment[end].date() for segment in segments for end in ("from", "to")}
    rows = tuple(
        (
            labels[_key(row)] if not number else "",
            _at(segment["from"], days),
            _at(segment["to"], days),
            signed(segment["offset"]),
            milliseconds(segment["uncertainty"]),
            formatted(segment["drift"] * 1e6, "+.1f") if segment["drift"] else "0",
            _allowed(segment),
            f"{segment['requests']:,}",
        )
        for row in largest
        for number, segment in enumerate(row["segments"])
    )
    headings = ("clock", "from", "to", "offset", "±", "ppm", "ppm allowed", "requests")
    return Table(
        headings, rows, title="The app's clock less nginx's, ms, half-way from–to; drift in ppm", shown=20,
        more=len(result.pairs) - len(largest),
    )  # fmt: skip


def _at(instant: datetime, days: set[Any]) -> str:
    return f"{instant:%H:%M:%S}" if len(days) == 1 else f"{instant:%m-%d %H:%M}"


def _allowed(segment: dict[str, Any]) -> str:
    if segment["drift_lower"] is None:
        return "–"
    return f"{formatted(segment['drift_lower'] * 1e6, '+.0f')} … {formatted(segment['drift_upper'] * 1e6, '+.0f')}"


def _failures(result: ClockResult) -> list[str]:
    labels = names(result)
    contradicted = [row for row in result.pairs if row["contradiction"] > NETWORK_GAP]
    failures = [
        f"what requests show of the clock of {labels[_key(row)]} disagrees by "
        f"{milliseconds(row['contradiction'])} ms, "
        "and neither a drift nor a step explains it: its delays or its service times are wrong"
        for row in contradicted[:MOST_NAMES]
    ]
    more = len(contradicted) - MOST_NAMES
    return [*failures, f"the same applies to {more:,} more"] if more > 0 else failures


def _notes(result: ClockResult) -> list[str]:
    labels = names(result)
    notes = []
    busy = [row for row in result.pairs if not row["idle"]]
    for row in busy[:MOST_NAMES]:
        segment = max(row["segments"], key=lambda one: one["upper"] - one["lower"])
        notes.append(
            f"Too little idle time for the clock of {labels[_key(row)]}: its queue was never seen empty, so only the "
            f"bounds are certain: an offset between {signed(segment['lower'])} and {signed(segment['upper'])} ms, "
            f"an interval of {milliseconds(segment['upper'] - segment['lower'])} ms. The estimate follows the way "
            "back, which has no queue. A window with an idle minute in it (--since, --until) bounds it better."
        )
    if len(busy) > MOST_NAMES:
        notes.append(f"The same applies to {len(busy) - MOST_NAMES} more.")
    if result.silent:
        clocks = ", ".join(labels[_key(row)] for row in result.silent[:MOST_NAMES])
        more = f" and {len(result.silent) - MOST_NAMES} more" if len(result.silent) > MOST_NAMES else ""
        notes.append(f"No request shows the clocks of {clocks}{more}; their offset is assumed to be 0.")
    return notes


def reading(result: ClockResult) -> str:
    """Return a sentence on the clock farthest from nginx's, and the number of clocks."""
    labels = names(result)
    segment, row = max(
        ((segment, row) for row in result.pairs for segment in row["segments"]),
        key=lambda one: abs(one[0]["offset"]),
    )
    steps = sum(len(row["steps"]) for row in result.pairs)
    of = (
        f"the farthest of {counted(len(result.pairs), 'clock')} from nginx's"
        if len(result.pairs) > 1
        else "off nginx's clock"
    )
    times = "once" if steps == 1 else counted(steps, "time")
    return (
        f"{labels[_key(row)]} is {of}, by {signed(segment['offset'])} ms, known to "
        f"±{milliseconds(segment['uncertainty'])} ms; " + (f"clocks were set {times}." if steps else "none was set.")
    )


def report_section(context: ReportContext) -> Section:
    """Return the section of a report."""
    return clock_section(clock(context.requests))
