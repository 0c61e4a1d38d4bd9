"""The components of rows: every request's response time as a sum, exactly.

    request_time = upload + proxy_queue + retries + connect + queue + service_time + network + transfer + redirected
                   + send (+ unattributed)

``COMPONENTS`` says what each is. Everything here is polars expressions over the canonical frame, row by row; the only
thing that is not local to a row is the clock offset, which ``sojourn.components.clock_offsets`` estimates per backend
beforehand. Nothing is clamped: a negative component is a finding, and is counted by the audit.
"""

from __future__ import annotations

import polars as pl

from sojourn.model.components import CLIENT_STATUSES, COMPONENTS, IMPOSSIBLE, LATE_STEPS, STAMP_TICK
from sojourn.model.frame import APP, INSTANT

# What a span adds to its request: the app's start (its clock), how long the worker was held and how long until the
# response headers (s), what the app and its server report of the queue (s, as in ``sojourn.readers.spans``), and the
# route, which an app that was not waited for cannot answer in a header.
SPAN_FACTS: dict[str, pl.DataType] = {
    "span_start": INSTANT,
    "span_seconds": pl.Float64(),
    "span_service_time": pl.Float64(),
    "span_queueing_delay": pl.Float64(),
    "span_waited": pl.Float64(),
    "span_route": pl.String(),
}

EARLY = 0.005  # s: the proxy's times are cut to milliseconds

# Canonical columns that have other values in split rows; all others pass through.
REWRITTEN = ("route", "proxy_start", "proxy_queue", "retries", "redirected", "connect")


def seconds_between(earlier: str, later: str) -> pl.Expr:
    """Return ``later - earlier`` of two instant columns, in seconds, exact to the microsecond."""
    return (pl.col(later) - pl.col(earlier)).dt.total_microseconds() / 1e6


def with_spans(rows: pl.LazyFrame, spans: pl.DataFrame | None) -> pl.LazyFrame:
    """Return ``rows`` with the columns of ``SPAN_FACTS``: the span of their last attempt, null without one.

    Joined by request id; by trace id and parent where the span has none (stock instrumentation). When a request was
    tried more than once and several workers reported, the span that started last is that of the last attempt.
    """
    names = tuple(SPAN_FACTS)
    if spans is None or spans.is_empty():
        return rows.with_columns(pl.lit(None, dtype).alias(name) for name, dtype in SPAN_FACTS.items())
    latest = spans.sort("span_start").lazy()
    by_id = latest.filter(pl.col("request_id").is_not_null()).unique("request_id", keep="last")
    # The span's parent is the id nginx sent. The trace alone would not do: services further down have spans in it too.
    parent = ["trace_id", "parent_span_id"]
    by_parent = latest.filter(pl.col("request_id").is_null()).unique(parent, keep="last")
    joined = rows.join(by_id.select("request_id", *names), on="request_id", how="left", maintain_order="left").join(
        by_parent.select(*parent, *names),
        left_on=["trace_id", "span_id"],
        right_on=parent,
        how="left",
        suffix="_by_parent",
        maintain_order="left",
    )
    filled = joined.with_columns(pl.coalesce(name, f"{name}_by_parent").alias(name) for name in names)
    return filled.drop(f"{name}_by_parent" for name in names)


def with_app_facts(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Return the known values of the app's part, before clock correction.

    Adds: ``late_stamp`` (bool: the logged stamp lies after the begin of the upstream request; ``proxy_start`` is then
    null, and the request is split as one without a stamp); ``proxied`` and ``answered`` (bool); ``app_start`` (s after
    nginx built the upstream request, by the app's clock, as measured); ``half_tick`` (s by which that instant of
    nginx's is too early on average: half of the milliseconds in which ``$msec`` counts, 0 where it is finer);
    ``app_service`` (s); ``queue_source``: stamp, span, duration or none; ``wasted``: seconds a worker was held by a
    request whose client had gone. ``route`` becomes the span's where the app answered nothing.
    """
    proxied = pl.col("attempts").fill_null(0) > 0
    answered = proxied & pl.col("header").is_not_null()
    rows = rows.with_columns(late_stamp=proxied & _after_begin("proxy_start"))
    rows = rows.with_columns(proxy_start=pl.when(~pl.col("late_stamp")).then("proxy_start"))
    by_stamp = pl.when(answered).then(pl.col("app_queueing_delay") + seconds_between("proxy_start", "request_start"))
    # Where nothing else is known, what the app measured since the stamp; durations need no clock, and come before it.
    started = pl.coalesce(seconds_between("proxy_start", "span_start"), pl.when(~answered).then("span_queueing_delay"))
    # Headers that were sent from within the server's queue do not contain it, nor the service.
    until_headers = pl.col("header") - pl.col("connect").fill_null(0.0)
    early = (answered & (until_headers + EARLY < pl.col("span_waited"))).fill_null(value=False)
    by_span = pl.when(proxied & ~early).then(started)
    of_span = pl.when(~early).then(pl.coalesce("span_service_time", "span_seconds"))
    service = pl.coalesce(pl.when(answered).then("app_service_time"), of_span)
    coarse = (pl.col("proxy_start").dt.epoch("us") % STAMP_TICK == 0).fill_null(value=False)
    facts = rows.with_columns(
        proxied.alias("proxied"),
        answered.alias("answered"),
        pl.coalesce(by_stamp, by_span).alias("app_start"),
        pl.when(coarse).then(STAMP_TICK / 2e6).otherwise(0.0).alias("half_tick"),
        pl.when(proxied).then(service).alias("app_service"),
        pl.when(by_stamp.is_not_null()).then(pl.lit("stamp"))
        .when(by_span.is_not_null()).then(pl.lit("span"))
        .when(answered & service.is_not_null() & ~_of_app()).then(pl.lit("duration"))
        .otherwise(pl.lit("none")).alias("queue_source"),
    )  # fmt: skip
    route = pl.when(~answered).then("span_route")
    return facts.with_columns(
        route=pl.coalesce(route, "route"), wasted=pl.when(proxied & ~answered).then("span_seconds")
    )


def with_components(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Return the split of each request, all in seconds.

    ``rows`` carry the app facts and ``clock_offset`` (s, the app's clock less nginx's; null: unknown, taken as 0).
    Adds the columns of ``COMPONENTS``, ``queueing_delay`` (proxy_queue + connect + queue), ``queue_by_duration`` (the
    estimate that needs no clock: header time - connect - service time) and ``impossible`` (the app's start lies after
    the response headers by more than ``IMPOSSIBLE``: the queue is that by durations). A component is null where it is
    unknown.
    """
    proxied, answered = pl.col("proxied"), pl.col("answered")
    request_time, header = pl.col("request_time"), pl.col("header")
    connect = pl.col("connect").fill_null(0.0)
    upload = (
        pl.when(proxied).then(seconds_between("start", "proxy_start").fill_null(0.0))
        .when(pl.col("status").is_in(CLIENT_STATUSES)).then(request_time)
        .otherwise(0.0)
    )  # fmt: skip
    rows = rows.with_columns(
        upload=upload,
        proxy_queue=pl.when(proxied).then(pl.col("proxy_queue").fill_null(0.0)).otherwise(0.0),
        retries=pl.when(proxied).then(pl.col("retries").fill_null(0.0)).otherwise(0.0),
        redirected=pl.when(proxied).then(pl.col("redirected").fill_null(0.0)).otherwise(0.0),
        connect=pl.when(proxied).then("connect"),
    )
    # nginx may leave the last attempt without a time (the client left while it was connecting).
    before = pl.col("upload") + pl.col("proxy_queue") + pl.col("retries")
    attempt = pl.coalesce("response", request_time - before - pl.col("redirected"))
    until_connected = pl.col("proxy_queue") + pl.col("retries") + connect
    since_connected = pl.col("app_start") - until_connected - pl.col("clock_offset").fill_null(0.0)
    waited = since_connected - pl.col("half_tick")
    # A stamp of a proxy in front, where nginx logged no instant of its own, is older than this response.
    elsewhere = (pl.col("stamp") == "inbound") & (pl.col("proxy_start") == pl.col("request_start"))
    impossible = answered & (waited > header - connect + IMPOSSIBLE) & ~elsewhere.fill_null(False)
    impossible = impossible.fill_null(False)
    rows = rows.with_columns(attempt=pl.when(proxied).then(attempt), waited=waited, impossible=impossible)
    rows = rows.with_columns(waited=pl.when(~pl.col("impossible")).then("waited"))
    # Until nginx gave up, the client waited first in the queue and then on the worker. Where the instants of the span
    # fall after that, the wait was all there was: this divides an interval, it does not correct a measurement.
    duration = pl.col("attempt") - connect
    abandoned = proxied & ~answered & pl.col("waited").is_not_null()
    by_duration = pl.when(answered & ~_of_app()).then(header - connect - pl.col("app_service"))
    rows = rows.with_columns(
        queue_by_duration=by_duration,
        queue=pl.when(abandoned).then(pl.min_horizontal(pl.col("waited"), duration))
        .when(answered).then(pl.coalesce("waited", by_duration)),
        queue_source=pl.when(~pl.col("impossible")).then("queue_source")
        .when(by_duration.is_not_null()).then(pl.lit("duration")).otherwise(pl.lit("none")),
    )  # fmt: skip
    worked = pl.min_horizontal(pl.col("waited") + pl.col("app_service").fill_null(0.0), duration) - pl.col("queue")
    rows = rows.with_columns(
        service_time=pl.when(abandoned).then(worked).when(answered).then("app_service"),
    )
    attributed = pl.col("queue").fill_null(0.0) + pl.col("service_time").fill_null(0.0)
    both = pl.col("queue").is_not_null() & pl.col("service_time").is_not_null()
    return rows.with_columns(
        queueing_delay=pl.col("proxy_queue") + connect + pl.col("queue"),
        network=pl.when(answered & both).then(header - connect - attributed),
        transfer=pl.when(answered).then(pl.col("attempt") - header),
        unattributed=pl.when(proxied & ~answered).then(duration - attributed)
        .when(answered & ~both).then(header - connect - attributed).otherwise(0.0),
        send=request_time - before - pl.col("attempt").fill_null(0.0) - pl.col("redirected"),
    ).drop("attempt", "waited")  # fmt: skip


def _after_begin(instant: str) -> pl.Expr:
    """Return whether an instant lies after the begin of the last upstream request, by more than rounding."""
    step_us = pl.max_horizontal(pl.col("time_step") * 1e6, STAMP_TICK)
    response_us = (pl.col("response").fill_null(0.0) * 1e6).round()
    late_us = (pl.col(instant) - pl.col("time")).dt.total_microseconds() + response_us
    return (late_us > LATE_STEPS * step_us).fill_null(value=False)


def _of_app() -> pl.Expr:
    """Return whether the log is the app server's own: the wait before the app is not within its times."""
    return (pl.col("vantage") == APP).fill_null(value=False)


def component_sum() -> pl.Expr:
    """Return the sum that must equal ``request_time``."""
    return pl.sum_horizontal(pl.col(name).fill_null(0.0) for name in COMPONENTS)
