"""The section of ``blame``."""

from __future__ import annotations

from typing import Any

import polars as pl

from sojourn.analyses.blame.analysis import BlameResult
from sojourn.analyses.blame.pictures import blame_pictures
from sojourn.analyses.blame.run import blame
from sojourn.analyses.question import ReportContext
from sojourn.model.formatting import counted, duration, formatted, listed, milliseconds, percent, printable
from sojourn.model.groups import largest_alone
from sojourn.model.one_worker import doubt, holding, joined, unnamed
from sojourn.present.display import lay_out
from sojourn.present.section import Section, Table
from sojourn.timeline.charge import DISPATCH
from sojourn.timeline.classes import NO_VALUE
from sojourn.timeline.free_workers import MUCH, explanation
from sojourn.timeline.named_accounts import ACCOUNTS
from sojourn.timeline.phases import AFTER, BODY, READ, SERVICE
from sojourn.timeline.suspicions import HIDDEN

MEASURES = (
    "Queueing delay: from the instant nginx turned to the backend to the app's start. Each instant of it is charged "
    "to dispatch if the request's own backend has a free worker, to imbalance if another backend of the upstream has "
    "one, and otherwise, in equal parts, to what holds the workers of the backend. Causes that the log shows have "
    "accounts of their own: processes with queues of their own, limits, pauses, absent workers."
)
LITTLE = 1e-3  # s: a mean wait below nginx's resolution is not a queue
DOUBTFUL = 0.1  # share of dispatch, or of unknown culprits, above which blame is in doubt
CELLS = 50
MENTIONED_FROM = 0.05  # of the waiting: smaller accounts are left out of the sentence
PHASE_ROWS = 12
PHASE_NAMES = {SERVICE: "service, to the headers", BODY: "body", AFTER: "after the answer", READ: "reading the request"}


@lay_out.register(BlameResult)
def blame_section(result: BlameResult) -> Section:
    """Return the section of ``blame``."""
    return Section(
        key="blame",
        title="Which requests caused the queueing delay",
        sentence=sentence(result),
        measures=MEASURES,
        failures=tuple(_failures(result)),
        tables=tuple(table for table in _tables(result) if table.rows),
        pictures=blame_pictures(result),
        notes=tuple(_notes(result)),
        short=sentence(result) if result.requests and result.waited / result.requests >= LITTLE else "",
    )


def sentence(result: BlameResult) -> str:
    """Return the finding in one sentence."""
    if not result.requests:
        return "The queueing delay is unknown: no request reports how long it waited."
    if without := _without_queue(result):
        return without
    shares = {"blamed": result.blamed, **result.accounts}
    largest = max(shares, key=lambda name: shares[name])
    if largest == DISPATCH:
        return _of_dispatch(result)
    if largest in ACCOUNTS and result.culprits["seconds"].sum() <= 0:
        return f"{_of_account(result, largest)}."
    top = result.culprits.row(0, named=True)
    caused = f"{_label(result, top['culprit'])} caused {percent(top['of_waited'])} of all queueing seconds"
    if top["requests"] and top["culprit"] is not None:
        caused += f" (it is {percent(top['requests'] / result.present)} of requests)"
    if largest in ACCOUNTS:
        return f"{_of_account(result, largest)}. {_capital(caused)}."
    of_those = _held_beyond_service(result, top) or f"{percent(top['share'])} of those charged to requests in service"
    others = [
        f"{percent(seconds / result.waited)} was {ACCOUNTS[name][0]}"
        for name, seconds in sorted(result.accounts.items(), key=lambda each: -each[1])
        if name in ACCOUNTS and seconds > MENTIONED_FROM * result.waited
    ]
    rest = f"; another {listed(others)}" if others else ""
    return f"{_capital(caused)}, {of_those}{rest}."


def _without_queue(result: BlameResult) -> str:
    """Return that hardly any request waits for a worker, most wait inside the app, or holders are missing, or ""."""
    if result.queue_source.filtered:
        return result.queue_source.filtered[0]
    mean, inner = result.waited / result.requests, result.inner
    if inner is not None and inner.waited > max(result.waited, LITTLE * result.requests):
        top = inner.culprits.row(0, named=True)
        return (
            f"Requests wait inside the app, for what they share, more than for workers: {duration(inner.waited)} "
            f"against {duration(max(result.waited, 0.0))} (inferred). {_capital(_label(result, top['culprit']))} "
            f"caused {percent(top['share'])} of it."
        )
    if mean < LITTLE:
        return (
            f"No significant queueing: {milliseconds(mean)} ms on average over {counted(result.requests, 'request')}."
        )
    return ""


def _of_account(result: BlameResult, account: str) -> str:
    """Return what most of the waiting was, if it is not charged to requests."""
    name, cause = ACCOUNTS[account]
    share = percent(result.accounts[account] / result.waited)
    return f"Mostly {name}: {share} of {duration(result.waited)} of waiting passed {cause}"


ACTIONS = {
    BODY: "with its bodies, which hold a worker for {} each: stream them from elsewhere, or page them",
    READ: "while a worker reads its requests, for {} each: let the proxy or another server read them first",
    AFTER: "after its answers, when a worker is held for another {} each: move that work to a queue of jobs",
}


def _held_beyond_service(result: BlameResult, top: dict[str, Any]) -> str:
    """Return how the largest culprit holds the workers, if not by its service, as a clause with the remedy; else ""."""
    phases = result.phases.filter(pl.col("culprit").eq_missing(pl.lit(top["culprit"], pl.String)))
    if phases.is_empty() or top["culprit"] is None:
        return ""
    largest = phases.row(0, named=True)
    if largest["phase"] not in ACTIONS or largest["seconds"] < top["seconds"] / 2:
        return ""
    share = percent(largest["seconds"] / top["seconds"])
    return f"{share} of that {ACTIONS[largest['phase']].format(duration(largest['each']))}"


def _of_dispatch(result: BlameResult) -> str:
    """Return the sentence for waits with a free worker: the way to an idle backend, or a cause that is not logged."""
    of = f"of {duration(result.waited)} of waiting"
    if result.queue_source.moved:
        return (
            f"Unknown: {percent(result.dispatch / result.waited)} {of} would have passed while a worker was free, but "
            "the number of workers changed."
        )
    if in_doubt := _way_in_doubt(result):
        return f"Unknown. {in_doubt}"
    if result.looked_free > result.dispatch / 2:
        return (
            f"Workers looked free during {percent(result.looked_free / result.waited)} {of}: the log does not show "
            f"what held them. {explanation(result.free_workers)}".rstrip()
        )
    way = max((backend.way for backend in result.free_workers), default=0.0)
    longest = f" (about {duration(way)} for each request)" if way else ""
    return (
        f"Mostly the way to a free worker: {percent(result.dispatch / result.waited)} {of} passed while the request's "
        f"own backend had a free worker{longest}."
    )


def _way_in_doubt(result: BlameResult) -> str:
    """Return how much of the waits may be the way to a backend, as a sentence; "" if it is little."""
    each = result.queue_source.way_in_doubt
    if each * result.requests <= DOUBTFUL * max(result.waited, 0):
        return ""
    return (
        f"Up to {duration(each)} of each wait may be the way to a backend: few requests arrived while it was idle, and "
        "its clock is not known. Blame is in doubt by as much."
    )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _label(result: BlameResult, culprit: str | None) -> str:
    if culprit is None:
        return "requests without a service time"
    name = printable(culprit, 60)
    return name if result.culprit_by == "route" else f"{result.culprit_by} {name}"


def _failures(result: BlameResult) -> list[str]:
    failures = doubt(result.workers, "blame")
    missing = result.left_out.get("no_wait", 0)
    if missing and result.dispatch > DOUBTFUL * max(result.waited, 0):
        failures.append(
            f"{counted(missing, 'request')} with unknown wait and service time went to a backend. Their workers appear "
            f"free: part of the {percent(result.dispatch / result.waited)} of dispatch is caused by them. Add the "
            "app's spans (--spans)."
        )
    if result.unknown > DOUBTFUL * max(result.blamed, 0):
        failures.append(
            f"{percent(result.unknown / result.blamed)} of the blamed seconds are charged to requests without a "
            "service time: their culprits are unknown. Add the app's spans (--spans)."
        )
    if (hidden := result.accounts.get(HIDDEN, 0.0)) > MUCH * max(result.waited, 0):
        failures.append(
            f"During {percent(hidden / result.waited)} of the waiting, workers were held by something that is not in "
            "the log (another proxy, another service, jobs), or that is in none of its lines. Give the other logs, or "
            "the app's spans (--spans)."
        )
    largest = max(result.blamed, *(seconds for name, seconds in result.accounts.items() if name != DISPATCH))
    if result.waited > 0 and result.looked_free > MUCH * result.waited and result.dispatch <= largest:
        failures.append(
            f"Workers looked free during {percent(result.looked_free / result.waited)} of the waiting: the log does "
            f"not show what held them, and the blame of the rest is a lower bound. {explanation(result.free_workers)}"
        )
    if in_doubt := _way_in_doubt(result):
        failures.append(in_doubt)
    if result.queue_source.bounds:
        failures.append(
            f"The queue of {result.queue_source.bounds[0]} is inferred as a lower bound: requests waited longer, and "
            "the seconds of blame are at least what is shown."
        )
    failures += result.queue_source.moved
    return failures + unnamed(result.workers)


def _tables(result: BlameResult) -> list[Table]:
    waited = result.waited or 1.0
    inner = result.inner.culprits.head(CELLS).to_dicts() if result.inner else []
    others = [
        (f"{name.replace('_', ' ')}: {ACCOUNTS[name][1].partition(':')[0]}", seconds)
        for name, seconds in result.accounts.items()
        if name in ACCOUNTS
    ]
    accounts = (
        ("blamed on the requests that held the workers", result.blamed),
        *others,
        ("dispatch: while its own backend had a free worker", result.dispatch),
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
            title="Culprits: requests that held the workers",
            more=max(len(result.culprits) - CELLS, 0),
        ),
        Table(
            (f"culprit ({result.culprit_by})", "seconds", "share"),
            tuple((row["culprit"] or NO_VALUE, _seconds(row["seconds"]), percent(row["share"])) for row in inner),
            title="Inside the app (inferred): requests that used what others waited for",
            shown=5,
        ),
        Table(
            (f"victim ({result.by})", "culprit", "seconds", "of blamed"),
            tuple(
                (row["victim"], row["culprit"] or NO_VALUE, _seconds(row["seconds"]), percent(row["share"]))
                for row in result.matrix.head(CELLS).iter_rows(named=True)
            ),
            title="Victims and culprits",
            text_columns=2,
            more=max(len(result.matrix) - CELLS, 0),
        ),
        Table(
            ("culprit", "filled the queue", "held the workers"),
            tuple(
                (row["culprit"], _seconds(row["filled"]), _seconds(row["held"]))
                for row in result.chain.classes.iter_rows(named=True)
            ),
            title="Blamed seconds by cause: more arrivals than usual, or longer service",
            shown=5,
        ),
        Table(
            ("backend", "begin (UTC)", "lasted", "blamed", "most", "arrivals", "main culprit"),
            tuple(
                (
                    period.upstream or NO_VALUE, f"{period.begin:%H:%M:%S}", duration(period.seconds),
                    _seconds(period.blamed), f"{period.peak:,}", f"×{period.burst:.1f}", period.culprit or NO_VALUE,
                )
                for period in result.chain.periods
            ),
            title="Costliest queues: blamed seconds, most requests waiting at once, arrivals relative to usual",
        ),
        Table(
            (f"culprit ({result.culprit_by})", "phase", "seconds", "of blamed", "requests", "each"),
            tuple(
                (
                    row["culprit"] or NO_VALUE, PHASE_NAMES[row["phase"]], _seconds(row["seconds"]),
                    percent(row["share"]), f"{row['requests']:,}", duration(row["each"]),
                )
                for row in result.phases.head(PHASE_ROWS).iter_rows(named=True)
            ),
            title="What held the workers: blamed seconds by phase",
            text_columns=2,
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
            title="Costliest requests: seconds that others waited for them",
            text_columns=2,
            shown=3,
        ),
        Table(
            ("backend", "workers", "known from"),
            tuple((row["upstream"] or NO_VALUE, str(row["workers"]), row["source"]) for row in result.workers),
        ),
    ]  # fmt: skip


def _notes(result: BlameResult) -> list[str]:
    notes = [*result.queue_source.marks, *result.queue_source.gaps, *joined(result.workers), *holding(result.workers)]
    notes += largest_alone(result.others, "workers", "are listed with their workers", "are in all sums")
    if result.negative:
        notes.append(
            f"{counted(result.negative, 'wait is', 'waits are')} negative "
            f"({formatted(result.negative_seconds, '.3f')} s in total) because of clock error. They are summed with "
            "their sign under dispatch."
        )
    if result.silent:
        notes.append(f"{counted(result.silent, 'request has', 'requests have')} no service time.")
    if result.inner is not None:
        inner = result.inner
        notes.append(
            f"Inferred: {duration(inner.waited)} of {duration(inner.service)} of service was waiting inside the app."
        )
        notes += inner.contention.notes
    missing = result.left_out.get("no_wait", 0)
    if missing and not _failures(result):
        notes.append(f"{counted(missing, 'request is', 'requests are')} left out: their queueing delay is unknown.")
    return notes


def _seconds(value: float) -> str:
    return formatted(value, ",.1f") if abs(value) < 1000 else formatted(value, ",.0f")


def report_section(context: ReportContext) -> Section:
    """Return the section of a report."""
    return blame_section(blame(context.requests, by=context.by, workers=context.workers))
