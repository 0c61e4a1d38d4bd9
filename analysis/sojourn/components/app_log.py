"""The app's own access log, joined to the proxy's requests by request id.

A line is taken as the span of its request: its duration is the service time, or the hold of the worker. What begins and
ends a duration differs between servers. One that runs until the headers is the service time. One that runs to the end
of the response contains its sending, and bounds the queueing delay from both sides:

    header time - duration  <=  queueing delay  <=  upstream response time - duration

Where the bounds are nearer than ``WIDEST`` and ``WIDEST_SHARE``, the middle is taken; otherwise the delay is unknown. A
duration that is longer than the upstream's own time is not used.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from sojourn.components.expressions import SPAN_FACTS
from sojourn.model.errors import SojournError
from sojourn.model.formatting import counted, listed, milliseconds, percent, printable
from sojourn.model.frame import PROXY, AppLog
from sojourn.readers.app_log import checked_app_log

TOLERANCE = 0.002  # s: nginx cuts its times to the millisecond, and reads its clock once per event
TOLERANCE_SHARE = 0.002
WIDEST, WIDEST_SHARE = 0.004, 0.04  # s, and of the header time
FEW = 10  # requests: fewer show no unit
MOST_LONGER = 0.5  # of the matched requests
UNIT = 1000  # between units of time
SMALLEST, SMALL_SHARE, MANY = 0.005, 0.95, 20  # s, of the requests, requests


@dataclass(frozen=True)
class AppLogMatch:
    """How an app log and the requests of the proxy's log fit.

    Attributes:
        titles: the format of each file, with its notes, in sentences.
        requests: requests to an app in the proxy's log.
        matched: of them, those whose duration is known from the app log.
        absent: of them, those without a line in it.
        longer: of them, those whose duration is longer than the upstream's own time.
        unseparable: of them, those whose duration contains a sending too long to tell it from the service.
        ambiguous: of them, those with several lines of which the answered attempt's is unknown.
        shared: of them, those whose id another request has too.
        lines: usable lines of the app log.
        unknown: of them, those of other requests than these.
        superseded: of them, those of attempts that the proxy had given up.
        superseded_seconds: their worker time, s.
        without_id: lines of requests without an id.
        refused: other lines that were not read.
        step: the step in which the durations count, s.
        tiny: nearly all durations are below a thousandth of the upstream's own time.
    """

    titles: tuple[str, ...]
    requests: int
    matched: int
    absent: int
    longer: int
    unseparable: int
    ambiguous: int
    shared: int
    lines: int
    unknown: int
    superseded: int
    superseded_seconds: float
    without_id: int
    refused: int
    step: float
    tiny: bool

    @property
    def coverage(self) -> str:
        """A sentence on how many requests the app log has, and why it does not have the others."""
        reasons = {
            "have no line in it": self.absent,
            "have a duration longer than the upstream's own time": self.longer,
            "have a duration with a long sending in it": self.unseparable,
            "have several lines, and which one was answered is unknown": self.ambiguous,
            "share their id with another request": self.shared,
        }
        others = ", ".join(f"{count:,} {reason}" for reason, count in reasons.items() if count)
        whole = f"the app log has the service time of {self.matched:,} of {counted(self.requests, 'request')} to an app"
        return f"{whole} ({others})" if others else whole

    @property
    def sentences(self) -> list[str]:
        """What the log contains, and what of it was not used."""
        result = [*self.titles, f"{self.coverage[0].upper()}{self.coverage[1:]}."]
        if self.step >= 0.0005:
            result.append(
                f"Its durations count in steps of {milliseconds(self.step)} ms: service times and queueing delays from "
                f"it are uncertain by ±{milliseconds(self.step)} ms."
            )
        if self.superseded:
            result.append(
                f"{counted(self.superseded, 'line is of an attempt', 'lines are of attempts')} that the proxy had "
                f"given up: {self.superseded_seconds:.3g} s of wasted worker time."
            )
        lines = {
            "of requests that are not in the proxy's log": self.unknown,
            "of requests without an id": self.without_id,
            "no lines of requests": self.refused,
        }
        if any(lines.values()):
            rest = listed([f"{count:,} {what}" for what, count in lines.items() if count])
            result.append(f"Not used of the app log: {rest}.")
        if self.tiny:
            result.append(
                "Nearly all of its durations are below a thousandth of the upstream's own time: its unit is another "
                "one, or the backends are far away. --app-log-format sets it."
            )
        return result

    def to_dict(self) -> dict[str, object]:
        """Return the object of the JSON output."""
        names = ("requests", "matched", "absent", "longer", "unseparable", "ambiguous", "shared", "lines", "unknown",
                 "superseded", "superseded_seconds", "without_id", "refused", "step", "tiny")  # fmt: skip
        return {name: getattr(self, name) for name in names}


def with_app_log(rows: pl.LazyFrame, log: AppLog | None) -> tuple[pl.LazyFrame, AppLogMatch | None]:
    """Return rows of ``with_spans`` whose missing facts are those of the app log, and how the two fit.

    ``worker`` becomes the app log's where the proxy's log has none.

    Raises:
        SojournError: the app log cannot be joined to these requests, or contradicts most of them.
    """
    if log is None:
        return rows, None
    table, match = matched_lines(rows, log)
    facts = [*SPAN_FACTS, "span_worker"]
    renamed = table.lazy().select("request_id", *(pl.col(name).alias(f"{name}_of_app") for name in facts))
    joined = rows.join(renamed, on="request_id", how="left", maintain_order="left")
    filled = joined.with_columns(
        *(pl.coalesce(name, f"{name}_of_app").alias(name) for name in SPAN_FACTS),
        worker=pl.coalesce("worker", "span_worker_of_app"),
    )
    return filled.drop(f"{name}_of_app" for name in facts), match


def matched_lines(rows: pl.LazyFrame, log: AppLog) -> tuple[pl.DataFrame, AppLogMatch]:
    """Return a row per request with its id and the facts of its line, and how the two logs fit.

    Raises:
        SojournError: as ``with_app_log``.
    """
    log = checked_app_log(log)
    requests = _requests(rows)
    pairs = requests.filter(~pl.col("shared")).join(log.rows, on="request_id", how="inner", maintain_order="right")
    if pairs.is_empty():
        raise SojournError(
            f"no request id of the app log is in the proxy's log ({counted(len(log.rows), 'line')}, "
            f"{counted(len(requests), 'request')}): let nginx send its own id to the app (proxy_set_header "
            "X-Request-ID $request_id;), and log both"
        )
    judged = _chosen(_judged(pairs, log.step))
    single = judged.filter("chosen")
    _refuse_other_unit(single, log)
    usable = single.filter(pl.col("longer").not_() & pl.col("separable"))
    ids = judged["request_id"].n_unique()
    chosen = len(single)
    superseded = judged.filter(pl.col("lines") > 1, "decided", ~pl.col("chosen"))
    reasons = log.records.reasons
    without_id = reasons.get("missing_request_id", 0)
    match = AppLogMatch(
        titles=tuple(f"{printable(name, 300)} is {text}" for name, text in log.titles.items()),
        requests=len(requests),
        matched=len(usable),
        absent=len(requests) - ids - int(requests["shared"].sum()),
        longer=int(single["longer"].sum()),
        unseparable=int((~single["longer"] & ~single["separable"]).sum()),
        ambiguous=ids - chosen,
        shared=int(requests["shared"].sum()),
        lines=len(log.rows),
        unknown=len(log.rows.join(requests, on="request_id", how="anti")),
        superseded=len(superseded),
        superseded_seconds=float(superseded["span_seconds"].sum()),
        without_id=without_id,
        refused=log.records.rejected - without_id,
        step=log.step,
        tiny=_is_tiny(single),
    )
    return usable.select("request_id", *SPAN_FACTS, "span_worker"), match


def _requests(rows: pl.LazyFrame) -> pl.DataFrame:
    """Return the requests to an app with an id: the time until the headers and until the end, from the connection."""
    proxied = rows.filter(pl.col("attempts").fill_null(0) > 0)
    if proxied.head(1).collect().is_empty():
        raise SojournError("no request of the proxy's log went to an app, so the app log cannot be joined to it")
    timed = proxied.filter(pl.col("vantage").fill_null(PROXY) == PROXY)
    if timed.head(1).collect().is_empty():
        raise SojournError(
            "the proxy's log has no times of its upstream, which the durations of the app log are held against: log "
            "$upstream_response_time and $upstream_header_time"
        )
    connect = pl.col("connect").fill_null(0.0)
    requests = (
        timed.filter(pl.col("request_id").is_not_null() & (pl.col("request_id") != ""))
        .select(
            "request_id",
            headers=pl.col("header") - connect,
            ended=pl.coalesce("response", "header") - connect,
            shared=pl.len().over("request_id") > 1,
        )
        .collect(engine="streaming")
    )
    if requests.is_empty():
        raise SojournError(
            "the proxy's log has no request ids, by which the app log is joined: log $request_id in nginx and send it "
            "to the app (proxy_set_header X-Request-ID $request_id;)"
        )
    return requests


def _judged(pairs: pl.DataFrame, step: float) -> pl.DataFrame:
    """Return pairs of a request and a line with ``longer``, ``separable``, and the facts of a span.

    An unanswered request has no time that its duration could be held against.
    """
    duration, headers, ended = pl.col("span_seconds"), pl.col("headers"), pl.col("ended")
    answered = headers.is_not_null()
    until = pl.when("until_end").then(pl.max_horizontal(ended, headers)).otherwise(headers)
    tolerance = TOLERANCE + step + TOLERANCE_SHARE * duration
    least = pl.max_horizontal(headers - duration, pl.lit(0.0))
    most = pl.min_horizontal(headers, until - duration)
    width = pl.max_horizontal(most - least, pl.lit(0.0))
    separable = ~pl.col("until_end") | (width <= pl.max_horizontal(pl.lit(WIDEST), WIDEST_SHARE * headers))
    service = pl.when("until_end").then(headers - (least + most) / 2).otherwise(duration)
    return pairs.with_columns(
        longer=(answered & (duration > until + tolerance)).fill_null(value=False),
        separable=(separable | ~answered).fill_null(value=True),
        span_service_time=pl.when(answered).then(service).otherwise(duration),
        span_queueing_delay=pl.lit(None, pl.Float64),
        span_waited=pl.lit(None, pl.Float64),
        span_seconds=pl.when(pl.col("until_end") | ~answered).then(duration),
        held=duration,
    )


def _chosen(pairs: pl.DataFrame) -> pl.DataFrame:
    """Return the pairs with ``chosen``, the line of the last attempt, and ``decided``, whether a request has such.

    Of several lines, it is the only one that is not longer than the attempt, or the one that began last, by more than
    the clock of the log can err.
    """
    by_id = pl.col("request_id")
    fits = ~pl.col("longer")
    ranked = pairs.with_columns(lines=pl.len().over(by_id), fitting=fits.sum().over(by_id))
    begun = pl.when(fits).then(pl.col("begun").dt.epoch("us"))
    ranked = ranked.with_columns(last=begun.max().over(by_id), unknown=(fits & begun.is_null()).any().over(by_id))
    earlier = pl.when(begun < pl.col("last")).then(begun).max().over(by_id)
    at_last = (begun == pl.col("last")).fill_null(value=False)
    apart = (pl.col("last") - earlier > 2e6 * pl.col("begun_step")).fill_null(value=False)
    by_time = at_last & apart & ~pl.col("unknown") & (at_last.sum().over(by_id) == 1)
    chosen = pl.when(pl.col("lines") == 1).then(pl.lit(True)).when(pl.col("fitting") == 1).then(fits).otherwise(by_time)
    return ranked.with_columns(chosen=chosen).with_columns(decided=pl.col("chosen").any().over(by_id))


def _refuse_other_unit(single: pl.DataFrame, log: AppLog) -> None:
    answered = single.filter(pl.col("headers").is_not_null())
    longer = int(answered["longer"].sum())
    if len(answered) >= FEW and longer > MOST_LONGER * len(answered):
        names = ", ".join(printable(name, 200) for name in log.titles)
        raise SojournError(
            f"{names}: {percent(longer / len(answered))} of its durations are longer than the proxy's own upstream "
            "times of the same requests: their unit is another one, or they are of something else; "
            "--app-log-format sets it"
        )


def _is_tiny(single: pl.DataFrame) -> bool:
    """Return whether the durations would still fit if their unit were a thousand times larger."""
    timed = single.filter(pl.col("ended") >= SMALLEST, pl.col("held") > 0)
    if len(timed) < MANY:
        return False
    return int((timed["held"] * UNIT <= timed["ended"]).sum()) >= SMALL_SHARE * len(timed)
