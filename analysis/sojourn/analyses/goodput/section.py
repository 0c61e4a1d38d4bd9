"""Goodput, laid out for people."""

from __future__ import annotations

from sojourn.analyses.goodput.analysis import GoodputResult
from sojourn.analyses.goodput.run import goodput
from sojourn.analyses.question import ReportContext
from sojourn.model.formatting import counted, duration, formatted, percent, printable, tally
from sojourn.present.display import lay_out
from sojourn.present.section import Picture, Section, Table

MEASURES = (
    "Wasted: from a worker taking a request to its being free again, of requests that nginx (504) or the client (499) "
    "had given up on."
)
DOUBTFUL = 0.1  # share of the requests given up on that may be unknown before it is said first
GROUPS = 50
ROWS = 10  # windows of the table over time
HOW = "The app's spans (--spans) or its own log (--app-log) tell."


@lay_out.register(GoodputResult)
def goodput_section(found: GoodputResult) -> Section:
    """The section of ``goodput``."""
    failures = []
    if found.known and found.unknown > DOUBTFUL * found.given_up:
        failures.append(
            f"{found.unknown:,} of the {counted(found.given_up, 'request')} given up on "
            f"{'has' if found.unknown == 1 else 'have'} no span: more was wasted than is "
            f"shown. {HOW}"
        )
    return Section(
        key="goodput",
        title="Work for clients already gone",
        sentence=sentence(found),
        measures=MEASURES,
        failures=tuple(failures),
        tables=_tables(found) if found.requests else (),
        pictures=_pictures(found),
        notes=tuple(_notes(found)),
        short=sentence(found) if found.known and found.wasted > 0 else "",
    )


def sentence(found: GoodputResult) -> str:
    """The finding in one sentence."""
    if not found.given_up:
        return f"No work was wasted: none of {counted(found.requests, 'request')} was given up on (499, 504)."
    if not found.known:
        if not found.unknown:
            return f"No work was wasted: none of {counted(found.given_up, 'request')} given up on had reached the app."
        return (
            f"{found.given_up:,} of {counted(found.requests, 'request')} {'was' if found.given_up == 1 else 'were'} "
            f"given up on (499, 504), and nothing tells how long workers were held by them. {HOW}"
        )
    text = (
        f"{duration(found.wasted)} of worker time, {percent(found.share)} of all, went into "
        f"{counted(found.known, 'request')} that had been given up on"
    )
    top = found.groups.row(0, named=True)
    if len(found.groups) > 1 and top["wasted"] > 0:
        text += f", {percent(top['wasted'] / found.wasted)} of it into {_named(found, top['group'])}"
    return text + "."


def _named(found: GoodputResult, group: str) -> str:
    name = printable(group, 60)
    return name if found.by == "route" else f"{found.by} {name}"


def _tables(found: GoodputResult) -> tuple[Table, ...]:
    groups = Table(
        (found.by, "requests", "given up", "unknown", "wasted (s)", "worked (s)", "wasted"),
        tuple(
            (
                row["group"],
                f"{row['requests']:,}",
                f"{row['given_up']:,}",
                f"{row['unknown']:,}",
                _seconds(row["wasted"]),
                f"{row['worked']:,.1f}",
                percent(row["share"]),
            )
            for row in found.groups.head(GROUPS).iter_rows(named=True)
        ),
        title="By " + found.by,
        more=max(len(found.groups) - GROUPS, 0),
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
            for storm in found.storms
        ),
        title="Retry storms: load that failures made",
    )
    over_time = Table(
        ("from (UTC)", "ended/s", "good/s", "failed/s", "wasted (s)", "worked (s)"),
        tuple(_coarse(found)),
        title="Over time, by the end of the request",
        shown=ROWS + 2,
    )
    return tuple(table for table in (groups, storms, over_time) if table.rows)  # fmt: skip


def _coarse(found: GoodputResult) -> list[tuple[str, ...]]:
    rows = found.over_time.to_dicts()
    together = -(-len(rows) // ROWS) or 1
    coarse = []
    for k in range(0, len(rows), together):
        part = rows[k : k + together]
        mean = {name: sum(row[name] for row in part) / len(part) for name in ("throughput", "goodput", "failures")}
        known = [row["wasted"] for row in part if row["wasted"] is not None]
        wasted = sum(known) if len(known) == len(part) or sum(known) > 0 else None
        coarse.append(
            (
                f"{part[0]['begin']:%H:%M:%S}", *(f"{value:,.1f}" for value in mean.values()),
                _seconds(wasted), f"{sum(row['worked'] for row in part):,.1f}",
            )
        )  # fmt: skip
    return coarse


def _seconds(value: float | None) -> str:
    return "–" if value is None else formatted(value, ",.1f")


def _pictures(found: GoodputResult) -> tuple[Picture, ...]:
    if not found.requests:
        return ()
    from sojourn.analyses.goodput.charts import goodput_over_time  # noqa: PLC0415 - drawn for pages only

    return (
        Picture(
            "goodput-over-time",
            "Throughput and goodput",
            "Requests that ended per second, and those whose client got an answer (above); worker seconds for clients "
            f"already gone per {duration(found.width)} (below).",
            lambda: goodput_over_time(found),
            reading(found),
        ),
    )


def reading(found: GoodputResult) -> str:
    """What the chart over time shows: both rates, and when most was wasted."""
    rate = 1 / found.seconds if found.seconds > 0 else 0.0
    text = f"{found.requests * rate:,.3g} requests ended per second on average"
    text += (
        ", and every one of them got an answer"
        if found.good == found.requests
        else f", {found.good * rate:,.3g} of them with an answer"
    )
    if found.given_up and not found.known and found.unknown:
        return f"{text}; what the {found.given_up:,} that were given up on cost is not known."
    worst = found.over_time.drop_nulls("wasted").sort("wasted", descending=True).head(1)
    if found.wasted <= 0 or worst.is_empty():
        return f"{text}; no work was wasted."
    row = worst.row(0, named=True)
    return (
        f"{text}; of {duration(found.wasted)} of wasted work, {duration(row['wasted'])} fell into the "
        f"{duration(found.width)} from {row['begin']:%H:%M:%S} UTC."
    )


def _notes(found: GoodputResult) -> list[str]:
    notes = []
    if found.known and found.after > 0:
        notes.append(f"Of the wasted time, {duration(found.after)} passed after the client had gone.")
    if found.unknown and found.known and found.unknown <= DOUBTFUL * found.given_up:
        notes.append(
            f"{counted(found.unknown, 'request given up on has', 'requests given up on have')} no span: what they cost "
            "is not known."
        )
    if found.not_reached:
        notes.append(
            f"{counted(found.not_reached, 'request was', 'requests were')} given up on before a connection to the app "
            "was made."
        )
    if found.repeats:
        notes.append(
            f"{counted(found.repeats, 'request is', 'requests are')} clients' own retries: {found.amplification:.2f} "
            "attempts per first request."
        )
    elif found.attempts > 1.005:
        notes.append(f"nginx made {found.attempts:.2f} attempts per request.")
    if found.repeats is None:
        notes.append("Clients' own retries cannot be told: addresses, methods or URIs were not read.")
    app_log = found.app_log
    if app_log is not None and app_log.rejected:
        notes.append(
            f"{app_log.rejected:,} of {counted(app_log.read, 'line')} of the app's log "
            f"{'was' if app_log.rejected == 1 else 'were'} refused: {tally(app_log.reasons)}."
        )
    return notes


def report_section(context: ReportContext) -> Section:
    """Return the section of a report."""
    return goodput_section(goodput(context.requests, by=context.by))
