"""Derive a request's queues from its packets: known waits, and bounds of the wait for accept().

accept() leaves no trace on the wire: the kernel completes the handshake for the app, and acknowledges the request
before the app reads it. The wait for accept(), from the end of the handshake at the client, is:

    at least   0; or, where repeated SYN-ACKs captured at the server prove that it dropped an ACK, the time to the final
               ACK that it accepted: before that the connection was not in the accept queue
    at most    the time to the first byte of the answer, minus the service time where it is known
    exactly    the time to the app's own start, where it is known; it includes the server's work between accept() and
               the app (reading the request, finding a thread)

Values are not clamped: negative ones result from clocks, and are counted.
"""

from __future__ import annotations

from datetime import timedelta

import polars as pl

from sojourn.analyses.pcap.frames import WIRE_INSTANT, seconds_on_wire
from sojourn.analyses.pcap.stamps import nanoseconds
from sojourn.components.clock_offsets.correction import with_clock_offset
from sojourn.components.clock_offsets.offsets import clock_offsets
from sojourn.model.frame import INSTANT

NGINX_RESOLUTION = timedelta(milliseconds=1)
"""The unit to which nginx truncates its times."""


def with_app_instants(frame: pl.DataFrame, ahead: float) -> pl.DataFrame:
    """Add ``app_start`` and ``app_end`` by the capturing machine's clock, and ``_service`` (s).

    The log has priority: nginx's stamp plus the app's delay, minus the split's clock offset. Otherwise the wire: the
    stamp in the request plus the delay in its answer, minus an offset estimated in the same way from the packets.

    Args:
        frame: joined requests, with columns of the log (``log_…``) and of the packets.
        ahead: the capturing machine's clock minus nginx's, s.
    """
    since = pl.col("log_app_start") - pl.col("log_clock_offset").fill_null(0.0) + ahead
    by_log = pl.col("log_proxy_start_ns") + nanoseconds(since.cast(pl.Float64))
    frame = frame.with_columns(
        _service=pl.coalesce("log_app_service", "wire_service").cast(pl.Float64), _by_log=by_log.cast(pl.Int64)
    )
    frame = frame.with_columns(_by_wire=_by_wire(frame))
    started = pl.coalesce("_by_log", "_by_wire")
    worked = nanoseconds(pl.col("_service"))
    return frame.with_columns(
        app_start=started.cast(WIRE_INSTANT), app_end=(started + worked).cast(WIRE_INSTANT)
    ).drop("_by_log", "_by_wire")  # fmt: skip


def _by_wire(frame: pl.DataFrame) -> pl.Series:
    """Return the app's start (ns) by the capturing machine's clock, from stamp and delay on the wire."""
    app = pl.col("stamp_us") + nanoseconds(pl.col("queueing_delay")) // 1_000
    reached = pl.coalesce("backend_established", "backend_request_last").dt.epoch("us")
    needed = frame["_by_log"].is_null() & frame["backend"].is_not_null()
    if not needed.any():
        return pl.Series("_by_wire", [None], dtype=pl.Int64).new_from_index(0, len(frame))
    # The wire in place of nginx: packets to the backend give the stamp, packets from it the header time.
    host = pl.col("proxy").str.replace(r":\d+$", "")
    facts = frame.lazy().select(
        proxy=host, upstream="backend", proxy_start=reached.cast(INSTANT), app_start=(app - reached) / 1e6,
        app_service="_service", connect=pl.lit(0.0), attempts=pl.lit(1),
        header=(pl.col("backend_response_first").dt.epoch("us") - reached) / 1e6,
        time=pl.col("backend_response_last"), start=reached.cast(INSTANT),
        answered=pl.col("backend_response_first").is_not_null() & reached.is_not_null(),
        app=app,
    ).with_columns(pl.col("time").cast(INSTANT))  # fmt: skip
    offsets = clock_offsets(facts)
    starts = with_clock_offset(facts, offsets).select(
        pl.col("app") * 1_000 - nanoseconds(pl.col("clock_offset").fill_null(0.0))
    )
    return starts.collect().to_series().alias("_by_wire")


def with_queues(frame: pl.DataFrame, ahead: float) -> pl.DataFrame:
    """Add TIMELINE's durations and the columns of PROXY_COLUMNS; arguments as of ``with_app_instants``."""
    began = pl.col("log_start_ns") + round(ahead * 1e9)
    upper = seconds_on_wire("backend_established", "backend_response_first") - pl.col("_service").fill_null(0.0)
    accepted = seconds_on_wire("backend_established", "backend_ack_taken")
    frame = frame.with_columns(nginx_start=began.cast(pl.Int64).cast(WIRE_INSTANT))
    # nginx accepted before the end of the millisecond in which it began to read, and before it contacted the backend.
    passed_on = pl.coalesce("backend_syn", "backend_request_first")
    frame = frame.with_columns(_accepted=pl.min_horizontal(pl.col("nginx_start") + NGINX_RESOLUTION, passed_on))
    return frame.with_columns(
        syn_dropped=seconds_on_wire("backend_syn", "backend_syn_answered"),
        # Captured elsewhere than at the server the same packets show a round trip.
        syn_queue=pl.when("backend_at_server").then(seconds_on_wire("backend_syn_answered", "backend_ack_taken")),
        accept_wait_lower=pl.when(pl.col("backend_established").is_not_null()).then(accepted.fill_null(0.0)),
        accept_wait_upper=upper,
        accept_wait=seconds_on_wire("backend_established", "app_start"),
        proxy_syn_dropped=seconds_on_wire("client_syn", "client_syn_answered"),
        proxy_syn_queue=pl.when("client_at_server").then(seconds_on_wire("client_syn_answered", "client_ack_taken")),
        proxy_accept_wait_upper=seconds_on_wire("client_established", "_accepted"),
        proxy_unread=seconds_on_wire("request_first", "nginx_start"),
    )
