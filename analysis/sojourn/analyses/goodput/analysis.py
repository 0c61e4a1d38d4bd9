"""Work done for clients already gone, what came of the rest, and retry storms.

A request is abandoned when nginx stops waiting for the app (504) or the client for nginx (499). The app is not
notified: it still takes the request from its queue, and a worker serves it without a client. Only the app knows how
long: from its spans, or from its own log. The worker time of an abandoned request without either is unknown, never 0.

    goodput        requests a second with an answer for the client (neither 499 nor 5xx)
    wasted         worker seconds of abandoned requests: all of them if the client got nothing; those after the client
                   left if the answer had begun
    amplification  attempts at the app per original request: nginx's attempts (its retries) times the
                   client's (the same address, method and URI again, within a minute of a failure)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

import polars as pl

from sojourn.analyses.goodput.retry_storms import Storm, storms_of
from sojourn.analyses.goodput.sums import WORKED, groups_of, over_time_of
from sojourn.components.inferred.rows import inferred_note
from sojourn.estimation.inferred import INFERRED
from sojourn.model.client_retries import CLIENT, FAILED, client_retries
from sojourn.model.column_errors import not_read
from sojourn.model.components import GIVEN_UP_STATUSES
from sojourn.model.errors import SojournError
from sojourn.model.formatting import iso
from sojourn.model.frame import INSTANT, Records
from sojourn.model.groups import route_name
from sojourn.model.result import Result
from sojourn.sources.frame_measures import without_upgraded
from sojourn.timeline.classes import NO_VALUE, checked_column
from sojourn.timeline.held_times import held_by_request
from sojourn.timeline.visits import SAME_REQUEST, all_differ
from sojourn.timeline.windows import EPOCH, Windows

MOST_ROWS = 1_000  # of a list in the JSON


@dataclass(frozen=True, repr=False)
class GoodputResult(Result):
    """The result of ``goodput``. All times are in seconds.

    Attributes:
        requests, proxied: all, and those that went to an app.
        given_up: abandoned requests (499 and 504).
        known: of them, those with a span or a line of the app's log.
        not_reached: of them, those without a connection to the app: no worker had them.
        unknown: of them, the others.
        wasted: worker time of the known ones.
        after: of it, the time after the request was abandoned (if the start of the work is known).
        worked: known worker time of all requests, until the release as far as the log shows it; None: unknown for all.
        by: the column of ``groups``.
        groups: by, requests, given_up, known, unknown, wasted, worked, share (wasted of worked).
        over_time: columns of ``sums.OVER_TIME_SCHEMA``, by the end of the request: rates per second, and seconds wasted
            (null: unknown) and worked.
        width: length of its windows.
        good: requests with an answer.
        attempts: nginx's attempts per request that went to an app.
        repeats: clients' own retries; None if addresses, methods or URIs were not read, or are not in the log.
        amplification: attempts per first request; None where ``repeats`` is.
        storms: retry storms, in the order of time.
        seconds: length of the log.
        app_log: counts of lines of the app's own log, read and refused; None without one.
        of_app: the log is an app server's own, which does not show what the proxy or a client gave up.
        mark: a sentence on the backends whose worker time is inferred; empty where it is measured.
    """

    TABLES: ClassVar = ("groups", "over_time", "storms")

    requests: int
    proxied: int
    given_up: int
    known: int
    not_reached: int
    unknown: int
    wasted: float
    after: float
    worked: float | None
    by: str
    groups: pl.DataFrame
    over_time: pl.DataFrame
    width: float
    good: int
    attempts: float
    repeats: int | None
    amplification: float | None
    storms: tuple[Storm, ...]
    seconds: float
    app_log: Records | None = None
    mark: str = ""
    of_app: bool = False

    @property
    def share(self) -> float | None:
        """Wasted share of all known worker time; None without any."""
        return self.wasted / self.worked if self.worked else None

    def to_dict(self) -> dict[str, Any]:
        """Return the object that ``sojourn goodput --json`` prints."""
        rate = 1 / self.seconds if self.seconds > 0 else 0.0
        groups = [] if self.of_app else self.groups.head(MOST_ROWS).to_dicts()
        windows = [] if self.of_app else list(self.over_time.iter_rows(named=True))
        wasted = self.known or not (self.unknown or self.of_app)
        return {
            "requests": self.requests,
            "proxied": self.proxied,
            "throughput": self.requests * rate,
            "goodput": None if self.of_app else self.good * rate,
            "given_up": None if self.of_app else self.given_up,
            "known": self.known,
            "not_reached": self.not_reached,
            "unknown": self.unknown,
            "wasted_seconds": self.wasted if wasted else None,
            "wasted_after_seconds": self.after if wasted else None,
            "worker_seconds": self.worked,
            "wasted_share": self.share if wasted else None,
            "by": {self.by: groups},
            "over_time": {
                "seconds": self.width,
                "windows": [{**row, "begin": iso(row["begin"])} for row in windows],
            },
            "attempts_per_request": self.attempts,
            "client_repeats": self.repeats,
            "amplification": self.amplification,
            "storms": [storm.to_dict() for storm in self.storms],
            "app_log": self.app_log and self.app_log.to_dict(),
        }


def goodput(
    rows: pl.LazyFrame, *, by: str = "route", app_log: pl.DataFrame | None = None, width: float | None = None
) -> GoodputResult:
    """Compute the goodput of split rows (``SplitResult.rows``).

    Args:
        rows: with a column ``request_id``, duplicate rows count once; with ``remote_addr``, ``method`` and ``uri``,
            clients' own retries are detected.
        by: column to group by.
        app_log: rows as of ``sojourn.readers.app_log.read_app_log``, of requests without a span; needs
            ``request_id`` in ``rows``.
        width: length of the windows over time, s; None: the shortest that gives at most 240.

    Raises:
        SojournError: ``by`` is not a column of ``rows``, or the log does not have the key.
    """
    table = _table(rows, by, app_log)
    given_up = table.filter("given_up")
    counts = given_up.select(
        known=pl.col("wasted").is_not_null().sum(),
        not_reached=pl.col("not_reached").sum(),
        wasted=pl.col("wasted").sum(),
        after=pl.col("after").sum(),
    ).row(0, named=True)
    proxied = table.filter("proxied")
    repeats = int(table["again"].sum()) if table["again"].null_count() < len(table) else None
    firsts = len(proxied) - int(proxied["again"].sum() or 0)
    attempts = int(proxied["attempts"].sum())
    base: datetime = table.select(pl.col("start").min()).item() or EPOCH
    first, last = table.select(pl.col("begun").min(), pl.col("ended").max()).row(0) if len(table) else (0.0, 0.0)
    windows = Windows.over(base, first, last, seconds=width)
    return GoodputResult(
        requests=len(table),
        proxied=len(proxied),
        given_up=len(given_up),
        **counts,
        unknown=len(given_up) - counts["known"] - counts["not_reached"],
        worked=table.select(WORKED).item(),
        by=by,
        groups=groups_of(proxied),
        over_time=over_time_of(table, windows, first, last),
        width=windows.seconds,
        good=int(table["good"].sum()),
        attempts=attempts / len(proxied) if len(proxied) else 0.0,
        repeats=repeats,
        amplification=None if repeats is None else attempts / firsts if firsts else 0.0,
        storms=storms_of(proxied, base),
        seconds=last - first,
        mark=inferred_note(rows),
    )


def _table(rows: pl.LazyFrame, by: str, app_log: pl.DataFrame | None) -> pl.DataFrame:
    """Return one row per request with the columns of the analysis."""
    names = rows.collect_schema().names()
    if by not in names:
        raise SojournError(not_read(by, names))
    if by == "route":
        rows = rows.with_columns(route_name(rows))
    served = _with_held(_with_app_log(_each_once(without_upgraded(rows), names), app_log), rows, names)
    status = pl.col("status")
    seconds = pl.coalesce("span_seconds", "late_seconds")
    begun = pl.when(pl.col("span_seconds").is_not_null()).then("span_start").otherwise("late_start")
    done = (begun - pl.col("time")).dt.total_microseconds() / 1e6 + seconds - pl.col("clock_offset").fill_null(0.0)
    given_up = pl.col("proxied") & status.is_in(GIVEN_UP_STATUSES)
    answered = pl.col("answered")
    # Without connect times the log does not show whether the app was reached.
    connects = pl.col("connect").is_not_null().any()
    inferred = pl.when(pl.col("queue_source") == INFERRED).then("service_time") if "queue_source" in names else None
    worked = pl.coalesce("app_service", *([] if inferred is None else [inferred]))
    # Work after the client has gone: an intersection of intervals, not a correction.
    after = pl.max_horizontal(pl.min_horizontal(done, seconds), pl.lit(0.0))
    base = pl.col("start").min()
    client = CLIENT if set(CLIENT) <= set(names) else ()
    table = served.select(
        pl.col(by).cast(pl.String).alias("group"),
        "start",
        "proxied",
        "attempts",
        *(pl.col(column).alias(f"client_{column}") for column in client),
        begun=(pl.col("start") - base).dt.total_microseconds() / 1e6,
        ended=(pl.col("time") - base).dt.total_microseconds() / 1e6,
        failed=FAILED,
        good=~FAILED,
        given_up=given_up,
        not_reached=given_up & ~answered & connects & pl.col("connect").is_null() & seconds.is_null(),
        wasted=pl.when(given_up & ~answered).then(seconds).when(given_up).then(after),
        after=pl.when(given_up).then(after),
        worked=pl.when("proxied").then(pl.coalesce(seconds, "held", pl.when(answered).then(worked))),
    ).collect(engine="streaming")
    checked_column(table["group"], by)
    again = client_retries(table, [f"client_{column}" for column in client])
    return table.drop(f"client_{column}" for column in client).with_columns(pl.col("group").fill_null(NO_VALUE), again)


def _each_once(served: pl.LazyFrame, names: Sequence[str]) -> pl.LazyFrame:
    """Return every request once; rows without an id are all kept, as nothing shows that two of them are one request."""
    if "request_id" not in names:
        return served.with_columns(request_id=pl.lit(None, pl.String))
    if all_differ(served.select(SAME_REQUEST).collect(engine="streaming")):
        return served
    key = pl.col("request_id")
    return served.filter(pl.struct(SAME_REQUEST).is_first_distinct() | key.is_null() | (key == ""))


def _with_held(served: pl.LazyFrame, rows: pl.LazyFrame, names: Sequence[str]) -> pl.LazyFrame:
    """Return the requests with ``held``, where their worker is held for longer than the service time; else null."""
    held = held_by_request(rows) if "request_id" in names else None
    if held is None:
        return served.with_columns(held=pl.lit(None, pl.Float64))
    return served.join(held.lazy(), on=SAME_REQUEST, how="left")


def _with_app_log(served: pl.LazyFrame, app_log: pl.DataFrame | None) -> pl.LazyFrame:
    """Return the requests with ``late_start`` and ``late_seconds`` of the app's own log; null without one."""
    if app_log is None or not len(app_log):
        return served.with_columns(late_start=pl.lit(None, INSTANT), late_seconds=pl.lit(None, pl.Float64))
    late = (
        app_log.lazy()
        .sort("begun", maintain_order=True)
        .unique("request_id", keep="last", maintain_order=True)
        .select("request_id", late_start="span_start", late_seconds="span_seconds")
    )
    return served.join(late, on="request_id", how="left")
