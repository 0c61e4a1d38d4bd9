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
LITTLE = 1e-3  # s: a mean wait below nginx's resolution is nobody's queue
DOUBTFUL = 0.1  # share of dispatch, or of unknown culprits, above which blame is in doubt
CELLS = 50


@lay_out.register(BlameResult)
def blame_section(found: BlameResult) -> Section:
    """The section of ``blame``."""
    return Section(
        key="blame",
        title="Who waited for whom",
        sentence=sentence(found),
        measures=MEASURES,
        failures=tuple(_failures(found)),
        tables=tuple(table for table in _tables(found) if table.rows),
        pictures=blame_pictures(found),
        notes=tuple(_notes(found)),
        short=sentence(found) if found.requests and found.waited / found.requests >= LITTLE else "",
    )


def sentence(found: BlameResult) -> str:
    """The finding in one sentence."""
    if not found.requests:
        return "Nobody is known to have waited: no request tells how long it waited."
    mean = found.waited / found.requests
    if mean < LITTLE:
        return (
            f"Nobody waited for anybody: {milliseconds(mean)} ms on average over {counted(found.requests, 'request')}."
        )
    of = f"of {duration(found.waited)} of waiting"
    shares = {"blamed": found.blamed, "imbalance": found.imbalance, "dispatch": found.dispatch}
    largest = max(shares, key=lambda name: shares[name])
    if largest == "dispatch":
        return (
            f"Most of it was nobody's queue: {percent(found.dispatch / found.waited)} {of} passed while the request's "
            "own backend had a free worker."
        )
    top = found.culprits.row(0, named=True)
    named = f"{_whose(found, top['culprit'])} caused {percent(top['of_waited'])} of all queueing seconds"
    if top["requests"] and top["culprit"] is not None:
        named += f" (it is {percent(top['requests'] / found.present)} of requests)"
    if largest == "imbalance":
        return (
            f"The balancer more than any request: {percent(found.imbalance / found.waited)} {of} passed while another "
            f"backend had a free worker. {_capital(named)}."
        )
    rest = f"; another {percent(found.imbalance / found.waited)} was imbalance between backends"
    return f"{_capital(named)}, {percent(top['share'])} of those that somebody is to blame for" + (
        rest + "." if found.imbalance > 0.05 * found.waited else "."
    )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _whose(found: BlameResult, culprit: str | None) -> str:
    if culprit is None:
        return "requests whose app did not say how long it worked"
    name = printable(culprit, 60)
    return name if found.culprit_by == "route" else f"{found.culprit_by} {name}"


def _failures(found: BlameResult) -> list[str]:
    failures = doubt(found.workers, "blame")
    missing = found.left_out.get("no_wait", 0)
    if missing and found.dispatch > DOUBTFUL * max(found.waited, 0):
        failures.append(
            f"{counted(missing, 'request')} went to a backend without anything telling how long they waited or worked. "
            f"Workers look free while they hold them: part of the {percent(found.dispatch / found.waited)} of dispatch "
            "is theirs. The app's spans (--spans) tell."
        )
    if found.unknown > DOUBTFUL * max(found.blamed, 0):
        failures.append(
            f"{percent(found.unknown / found.blamed)} of the blamed seconds are of requests whose app did not say how "
            "long it worked: their culprits are not known."
        )
    if any(row["source"] == "most at once" for row in found.workers):
        failures.append(
            "No worker names were logged for some backends: the most requests in service at once stands for their "
            "number of workers, which may be too few. Say it with --workers."
        )
    return failures


def _tables(found: BlameResult) -> list[Table]:
    waited = found.waited or 1.0
    accounts = (
        ("blamed on those in service", found.blamed),
        ("imbalance: another backend had a free worker", found.imbalance),
        ("dispatch: its own backend had a free worker", found.dispatch),
    )
    return [
        Table(
            ("account", "seconds", "share"),
            tuple((name, _seconds(value), percent(value / waited)) for name, value in accounts)
            if found.requests
            else (),
        ),
        Table(
            (f"culprit ({found.culprit_by})", "seconds", "of blamed", "of all", "requests"),
            tuple(
                (
                    row["culprit"] or NO_VALUE, _seconds(row["seconds"]), percent(row["share"]),
                    percent(row["of_waited"]), percent(row["requests"] / found.present),
                )
                for row in found.culprits.head(CELLS).iter_rows(named=True)
            ),
            title="Who was waited for",
            more=max(len(found.culprits) - CELLS, 0),
        ),
        Table(
            (f"victim ({found.by})", "culprit", "seconds", "of blamed"),
            tuple(
                (row["victim"], row["culprit"] or NO_VALUE, _seconds(row["seconds"]), percent(row["share"]))
                for row in found.matrix.head(CELLS).iter_rows(named=True)
            ),
            title="Who waited for whom",
            text_columns=2,
            more=max(len(found.matrix) - CELLS, 0),
        ),
        Table(
            ("culprit", "filled the queue", "held the workers"),
            tuple(
                (row["culprit"], _seconds(row["filled"]), _seconds(row["held"]))
                for row in found.chain.classes.iter_rows(named=True)
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
                for period in found.chain.periods
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
                for row in found.costliest
            ),
            title="The requests that most was waited for",
            text_columns=2,
            shown=3,
        ),
        Table(
            ("backend", "workers", "known from"),
            tuple((row["upstream"] or NO_VALUE, str(row["workers"]), row["source"]) for row in found.workers),
        ),
    ]  # fmt: skip


def _notes(found: BlameResult) -> list[str]:
    notes = []
    if found.negative:
        notes.append(
            f"{counted(found.negative, 'wait is', 'waits are')} below zero "
            f"({formatted(found.negative_seconds, '.3f')} s together): the clocks are off by that. "
            "They count as they are, under dispatch."
        )
    if found.silent:
        notes.append(
            f"{counted(found.silent, 'request was', 'requests were')} waited for or waited without saying how long "
            "they were served."
        )
    missing = found.left_out.get("no_wait", 0)
    if missing and not _failures(found):
        notes.append(f"{counted(missing, 'request is', 'requests are')} left out: nothing tells how long they waited.")
    return notes


def _seconds(value: float) -> str:
    return formatted(value, ",.1f") if abs(value) < 1000 else formatted(value, ",.0f")


def report_section(context: ReportContext) -> Section:
    """Return the section of a report."""
    return blame_section(blame(context.requests, by=context.by, workers=context.workers))
