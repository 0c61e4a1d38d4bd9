"""The section of ``goodput``."""

from __future__ import annotations

from functools import partial

from sojourn.analyses.goodput.analysis import GoodputResult
from sojourn.analyses.goodput.charts import goodput_over_time
from sojourn.analyses.goodput.run import goodput
from sojourn.analyses.question import ReportContext
from sojourn.model.coverage import APP_LOG
from sojourn.model.formatting import counted, duration, formatted, percent, printable, tally
from sojourn.present.display import lay_out
from sojourn.present.section import Picture, Section, Table

MEASURES = (
    "Wasted: the time that workers were held by abandoned requests: nginx (504) or the client (499) had given up on "
    "them."
)
DOUBTFUL = 0.1  # share of abandoned requests with unknown work above which the result is a failure, not a note
GROUPS = 50
ROWS = 10  # windows of the table over time
HOW = "Give the app's spans (--spans) or its own log (--app-log)."


@lay_out.register(GoodputResult)
def goodput_section(result: GoodputResult) -> Section:
    """Return the section of ``goodput``."""
    failures = []
    if result.known and result.unknown > DOUBTFUL * result.given_up:
        failures.append(
            f"{result.unknown:,} of {counted(result.given_up, 'abandoned request')} "
            f"{'has' if result.unknown == 1 else 'have'} no span: more worker time was wasted than shown. {HOW}"
        )
    return Section(
        key="goodput",
        title="Work for clients already gone",
        sentence=sentence(result),
        measures=MEASURES,
        failures=tuple(failures),
        tables=_tables(result) if result.requests and not result.of_app else (),
        pictures=() if result.of_app else _pictures(result),
        notes=tuple(_notes(result)),
        short=sentence(result) if result.known and result.wasted > 0 else "",
    )


def sentence(result: GoodputResult) -> str:
    """Return the finding in one sentence."""
    if result.of_app:
        return f"Unknown: which requests the client or the proxy had given up is not in the log. {APP_LOG}"
    if not result.given_up:
        return f"No work was wasted: none of {counted(result.requests, 'request')} was abandoned (499, 504)."
    if not result.known:
        if not result.unknown:
            return f"No work was wasted: none of {counted(result.given_up, 'abandoned request')} had reached the app."
        return (
            f"{result.given_up:,} of {counted(result.requests, 'request')} {'was' if result.given_up == 1 else 'were'} "
            f"abandoned (499, 504); the worker time spent on them is unknown. {HOW}"
        )
    text = (
        f"{duration(result.wasted)} of worker time, {percent(result.share)} of all, went into "
        f"{counted(result.known, 'abandoned request')}"
    )
    top = result.groups.row(0, named=True)
    if len(result.groups) > 1 and top["wasted"] > 0:
        text += f", {percent(top['wasted'] / result.wasted)} of it into {_label(result, top['group'])}"
    return text + "."


def _label(result: GoodputResult, group: str) -> str:
    name = printable(group, 60)
    return name if result.by == "route" else f"{result.by} {name}"


def _tables(result: GoodputResult) -> tuple[Table, ...]:
    groups = Table(
        (result.by, "requests", "given up", "unknown", "wasted (s)", "worked (s)", "wasted"),
        tuple(
            (
                row["group"],
                f"{row['requests']:,}",
                f"{row['given_up']:,}",
                f"{row['unknown']:,}",
                _seconds(row["wasted"]),
                _seconds(row["worked"]),
                percent(row["share"]),
            )
            for row in result.groups.head(GROUPS).iter_rows(named=True)
        ),
        title="By " + result.by,
        more=max(len(result.groups) - GROUPS, 0),
    )
    storms = Table(
        ("from (UTC)", "lasted", "requests", "attempts per first", "retries", "failures"),
        tuple(
            (
                f"{storm.begin:%H:%M:%S}",
                duration((storm.end - storm.begin).total_seconds()),
                f"{storm.requests:,}",
                f"{storm.amplification:.2f}",
                percent(storm.repeated),
                percent(storm.failures),
            )
            for storm in result.storms
        ),
        title="Retry storms: load from retries of failed requests",
    )
    over_time = Table(
        ("from (UTC)", "ended/s", "good/s", "failed/s", "wasted (s)", "worked (s)"),
        tuple(_coarse(result)),
        title="Over time, by the end of the request",
        shown=ROWS + 2,
    )
    return tuple(table for table in (groups, storms, over_time) if table.rows)  # fmt: skip


def _coarse(result: GoodputResult) -> list[tuple[str, ...]]:
    rows = result.over_time.to_dicts()
    together = -(-len(rows) // ROWS) or 1
    coarse = []
    for k in range(0, len(rows), together):
        part = rows[k : k + together]
        mean = {name: sum(row[name] for row in part) / len(part) for name in ("throughput", "goodput", "failures")}
        figures = [row["wasted"] for row in part if row["wasted"] is not None]
        wasted = sum(figures) if len(figures) == len(part) or sum(figures) > 0 else None
        worked = [row["worked"] for row in part if row["worked"] is not None]
        coarse.append(
            (
                f"{part[0]['begin']:%H:%M:%S}", *(f"{value:,.1f}" for value in mean.values()),
                _seconds(wasted), _seconds(sum(worked) if worked else None),
            )
        )  # fmt: skip
    return coarse


def _seconds(value: float | None) -> str:
    return "–" if value is None else formatted(value, ",.1f")


def _pictures(result: GoodputResult) -> tuple[Picture, ...]:
    if not result.requests:
        return ()
    return (
        Picture(
            "goodput-over-time",
            "Throughput and goodput",
            "Above: requests that ended per second, and those whose client got an answer. Below: worker seconds for "
            f"clients already gone, per {duration(result.width)}.",
            partial(goodput_over_time, result),
            reading(result),
        ),
    )


def reading(result: GoodputResult) -> str:
    """Describe the chart over time: both rates, and the window with the most wasted time."""
    rate = 1 / result.seconds if result.seconds > 0 else 0.0
    text = f"{result.requests * rate:,.3g} requests ended per second on average"
    text += (
        ", all of them with an answer"
        if result.good == result.requests
        else f", {result.good * rate:,.3g} of them with an answer"
    )
    if result.given_up and not result.known and result.unknown:
        return f"{text}; the worker time of {counted(result.given_up, 'abandoned request')} is unknown."
    worst = result.over_time.drop_nulls("wasted").sort("wasted", descending=True).head(1)
    if result.wasted <= 0 or worst.is_empty():
        return f"{text}; no work was wasted."
    row = worst.row(0, named=True)
    return (
        f"{text}; of {duration(result.wasted)} of wasted work, {duration(row['wasted'])} fell into the "
        f"{duration(result.width)} from {row['begin']:%H:%M:%S} UTC."
    )


def _notes(result: GoodputResult) -> list[str]:
    notes = [result.mark] if result.mark else []
    if result.known and result.after > 0:
        notes.append(f"Of the wasted time, {duration(result.after)} passed after the client had gone.")
    if result.unknown and result.known and result.unknown <= DOUBTFUL * result.given_up:
        notes.append(
            f"{counted(result.unknown, 'abandoned request has', 'abandoned requests have')} no span: their cost is "
            "unknown."
        )
    if result.not_reached:
        notes.append(
            f"{counted(result.not_reached, 'request was', 'requests were')} abandoned before nginx had a connection to "
            "the app."
        )
    if result.repeats and result.amplification is not None:
        notes.append(
            f"{counted(result.repeats, 'request is', 'requests are')} clients' own retries: {result.amplification:.2f} "
            "attempts per first request."
        )
    elif result.attempts > 1.005:
        notes.append(f"nginx made {result.attempts:.2f} attempts per request.")
    if result.repeats is None:
        notes.append(
            "Clients' own retries are unknown: addresses, methods or URIs are not in the log, or were not read."
        )
    app_log = result.app_log
    if app_log is not None and app_log.rejected:
        notes.append(
            f"{app_log.rejected:,} of {counted(app_log.read, 'line')} of the app's log "
            f"{'was' if app_log.rejected == 1 else 'were'} refused: {tally(app_log.reasons)}."
        )
    return notes


def report_section(context: ReportContext) -> Section:
    """Return the section of a report."""
    return goodput_section(goodput(context.requests, by=context.by))
