"""Blame, laid out for people."""

from __future__ import annotations

from sojourn.analyses.blame.analysis import BlameResult
from sojourn.analyses.blame.pictures import blame_pictures
from sojourn.analyses.blame.run import blame
from sojourn.analyses.question import ReportContext
from sojourn.model.formatting import counted, duration, formatted, milliseconds, percent, printable
from sojourn.model.one_worker import doubt
from sojourn.present.display import lay_out
from sojourn.present.section import Section, Table
from sojourn.timeline.classes import NO_VALUE

MEASURES = (
    "From the instant nginx turned to the backend to the app's start. At every instant of a wait: its own backend has "
    "a free worker: dispatch; another backend of the upstream has one: imbalance; otherwise those in service are to "
    "blame, in equal parts."
)
LITTLE = 1e-3  # s: a mean wait below nginx's resolution is not a queue
DOUBTFUL = 0.1  # share of dispatch, or of unknown culprits, above which blame is in doubt
CELLS = 50


@lay_out.register(BlameResult)
def blame_section(result: BlameResult) -> Section:
    """The section of ``blame``."""
    return Section(
        key="blame",
        title="Who waited for whom",
        sentence=sentence(result),
        measures=MEASURES,
        failures=tuple(_failures(result)),
        tables=tuple(table for table in _tables(result) if table.rows),
        pictures=blame_pictures(result),
        notes=tuple(_notes(result)),
        short=sentence(result) if result.requests and result.waited / result.requests >= LITTLE else "",
    )


def sentence(result: BlameResult) -> str:
    """The finding in one sentence."""
    if not result.requests:
        return "Nobody is known to have waited: no request tells how long it waited."
    mean = result.waited / result.requests
    if mean < LITTLE:
        return (
            f"Nobody waited for anybody: {milliseconds(mean)} ms on average over {counted(result.requests, 'request')}."
        )
    of = f"of {duration(result.waited)} of waiting"
    shares = {"blamed": result.blamed, "imbalance": result.imbalance, "dispatch": result.dispatch}
    largest = max(shares, key=lambda name: shares[name])
    if largest == "dispatch":
        return (
            f"Most of it was no queue: {percent(result.dispatch / result.waited)} {of} passed while the request's own "
            "backend had a free worker."
        )
    top = result.culprits.row(0, named=True)
    named = f"{_whose(result, top['culprit'])} caused {percent(top['of_waited'])} of all queueing seconds"
    if top["requests"] and top["culprit"] is not None:
        named += f" (it is {percent(top['requests'] / result.present)} of requests)"
    if largest == "imbalance":
        return (
            f"Mostly imbalance between backends: {percent(result.imbalance / result.waited)} {of} passed while another "
            f"backend had a free worker. {_capital(named)}."
        )
    rest = f"; another {percent(result.imbalance / result.waited)} was imbalance between backends"
    return f"{_capital(named)}, {percent(top['share'])} of those that somebody is to blame for" + (
        rest + "." if result.imbalance > 0.05 * result.waited else "."
    )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _whose(result: BlameResult, culprit: str | None) -> str:
    if culprit is None:
        return "requests whose app did not say how long it worked"
    name = printable(culprit, 60)
    return name if result.culprit_by == "route" else f"{result.culprit_by} {name}"


def _failures(result: BlameResult) -> list[str]:
    failures = doubt(result.workers, "blame")
    missing = result.left_out.get("no_wait", 0)
    if missing and result.dispatch > DOUBTFUL * max(result.waited, 0):
        failures.append(
            f"{counted(missing, 'request')} went to a backend with unknown wait and service time. Their workers appear "
            f"free: part of the {percent(result.dispatch / result.waited)} of dispatch belongs to them. Add the app's "
            "spans (--spans)."
        )
    if result.unknown > DOUBTFUL * max(result.blamed, 0):
        failures.append(
            f"{percent(result.unknown / result.blamed)} of the blamed seconds belong to requests without a "
            "service time: their culprits are unknown."
        )
    if any(row["source"] == "most at once" for row in result.workers):
        failures.append(
            "No worker names were logged for some backends: the most requests in service at once stands for their "
            "number of workers, which may be too few. Say it with --workers."
        )
    return failures


def _tables(result: BlameResult) -> list[Table]:
    waited = result.waited or 1.0
    accounts = (
        ("blamed on those in service", result.blamed),
        ("imbalance: another backend had a free worker", result.imbalance),
        ("dispatch: its own backend had a free worker", result.dispatch),
    )
    return [
        Table(
            ("account", "seconds", "share"),
            tuple((name, _seconds(value), percent(value / waited)) for name, value in accounts)
            if result.requests
            else (),
        ),
        Table(
            (f"culprit ({result.culprit_by})", "seconds", "of blamed", "of all", "requests"),
            tuple(
                (
                    row["culprit"] or NO_VALUE, _seconds(row["seconds"]), percent(row["share"]),
                    percent(row["of_waited"]), percent(row["requests"] / result.present),
                )
                for row in result.culprits.head(CELLS).iter_rows(named=True)
            ),
            title="Who was waited for",
            more=max(len(result.culprits) - CELLS, 0),
        ),
        Table(
            (f"victim ({result.by})", "culprit", "seconds", "of blamed"),
            tuple(
                (row["victim"], row["culprit"] or NO_VALUE, _seconds(row["seconds"]), percent(row["share"]))
                for row in result.matrix.head(CELLS).iter_rows(named=True)
            ),
            title="Who waited for whom",
            text_columns=2,
            more=max(len(result.matrix) - CELLS, 0),
        ),
        Table(
            ("culprit", "filled the queue", "held the workers"),
            tuple(
                (row["culprit"], _seconds(row["filled"]), _seconds(row["held"]))
                for row in result.chain.classes.iter_rows(named=True)
            ),
            title="Blamed seconds by what was unusual: more arrived, or service took longer",
            shown=5,
        ),
        Table(
            ("backend", "begun (UTC)", "lasted", "waited", "most", "arrivals", "mostly for"),
            tuple(
                (
                    period.upstream or NO_VALUE, f"{period.begin:%H:%M:%S}", duration(period.seconds),
                    _seconds(period.blamed), f"{period.peak:,}", f"×{period.burst:.1f}", period.culprit or NO_VALUE,
                )
                for period in result.chain.periods
            ),
            title="The costliest queues: blamed seconds, most waiting at once, arrivals against the usual",
        ),
        Table(
            ("request", "culprit", "arrived (UTC)", "held", "caused"),
            tuple(
                (
                    str(row["uri"] or row["request_id"] or NO_VALUE), row["culprit"] or NO_VALUE,
                    f"{row['arrival']:%H:%M:%S}", duration(row["held"]), _seconds(row["seconds"]),
                )
                for row in result.costliest
            ),
            title="The requests that most was waited for",
            text_columns=2,
            shown=3,
        ),
        Table(
            ("backend", "workers", "known from"),
            tuple((row["upstream"] or NO_VALUE, str(row["workers"]), row["source"]) for row in result.workers),
        ),
    ]  # fmt: skip


def _notes(result: BlameResult) -> list[str]:
    notes = []
    if result.negative:
        notes.append(
            f"{counted(result.negative, 'wait is', 'waits are')} below zero "
            f"({formatted(result.negative_seconds, '.3f')} s together): the clocks are off by that. "
            "They count as they are, under dispatch."
        )
    if result.silent:
        notes.append(
            f"{counted(result.silent, 'request was', 'requests were')} waited for or waited without saying how long "
            "they were served."
        )
    missing = result.left_out.get("no_wait", 0)
    if missing and not _failures(result):
        notes.append(f"{counted(missing, 'request is', 'requests are')} left out: nothing tells how long they waited.")
    return notes


def _seconds(value: float) -> str:
    return formatted(value, ",.1f") if abs(value) < 1000 else formatted(value, ",.0f")


def report_section(context: ReportContext) -> Section:
    """Return the section of a report."""
    return blame_section(blame(context.requests, by=context.by, workers=context.workers))
