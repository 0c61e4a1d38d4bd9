"""Analyse a capture: connections, requests across the proxy, the queues before accept(), and agreement with the log.

    client ──SYN──▶ proxy's SYN queue ──ACK──▶ proxy's accept queue ──accept()──▶ nginx
    nginx  ──SYN──▶ backend's SYN queue ──ACK──▶ backend's accept queue ──accept()──▶ app

Packets show the SYN queue of each side, unanswered SYNs, and bounds of the accept queue;
``sojourn.analyses.pcap.bounds`` defines them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime

import polars as pl

from sojourn.analyses.pcap.agreement import RESOLUTION, agreement, differences, wire_check
from sojourn.analyses.pcap.frames import seconds_on_wire
from sojourn.analyses.pcap.log_join import TOLERANCE
from sojourn.analyses.pcap.notes import findings, join_notes
from sojourn.analyses.pcap.result import FIGURES, WireResult
from sojourn.analyses.pcap.tallies import counts_of, servers, syn_steps
from sojourn.analyses.pcap.timeline import Timelines, timeline
from sojourn.analyses.pcap.tracking_result import TrackingResult
from sojourn.model.errors import SojournError
from sojourn.model.figures import Summary
from sojourn.model.statistics import summaries
from sojourn.readers.capture.batch import Counts

# Figures that end at a time of nginx's clock, which is truncated to whole milliseconds.
BY_NGINX = ("proxy_unread",)


def wire_of(
    tracking: TrackingResult,
    counts: Counts,
    names: Sequence[str] = (),
    interfaces: Sequence[str] = (),
    *,
    rows: pl.LazyFrame | None = None,
    backends: Collection[str] = (),
    since: datetime | None = None,
    until: datetime | None = None,
    tolerance: float = TOLERANCE,
) -> WireResult:
    """Analyse tracked connections; ``rows``: split rows of the log. Other arguments as of ``sojourn.pcap``."""
    timelines = timeline(_within(tracking, since, until), rows, backends=backends, tolerance=tolerance)
    log_less_wire = differences(timelines.frame, timelines.log)
    agreed = agreement(log_less_wire)
    frame = _with_handshakes(timelines.frame)
    first, last = timelines.connections.select(pl.col("first").min(), pl.col("last").max()).row(0)
    result = WireResult(
        names=tuple(names),
        interfaces=tuple(interfaces),
        counts=counts,
        window=None if first is None else (first, last),
        connections=timelines.connections,
        exchanges=timelines.exchanges,
        timeline=timelines.frame,
        unparsed=dict(tracking.unparsed),
        figures=_figures(frame),
        sizes={name: frame[name].count() for name in FIGURES},
        negative={name: int((frame[name] < -RESOLUTION * (name in BY_NGINX)).sum()) for name in FIGURES},
        steps=syn_steps(timelines.connections),
        servers=servers(timelines.connections),
        ends=counts_of(timelines.connections, "end"),
        joined=timelines.joined,
        agreement=agreed,
        differences=log_less_wire,
        split=_split(frame, timelines),
        checks=(wire_check(agreed, timelines.joined),) if rows is not None else (),
        has_log=rows is not None,
    )
    result.findings.extend(findings(result))
    result.notes.extend(join_notes(result))
    return result


def checked_backend(name: str) -> str:
    """Return a backend as address:port or :port; ``name`` may be a bare port.

    Raises:
        SojournError: ``name`` is none of them.
    """
    host, _, port = name.rpartition(":")
    sound = port.isascii() and port.isdigit() and len(port) < 6 and 0 < int(port) < 65_536
    if not sound or (host.count(":") and host[:1] != "["):
        raise SojournError(f"{name!r} is not a backend: give 10.0.0.1:8080, [::1]:8080, or a port")
    return f"{host}:{int(port)}"


def ports_of(rows: pl.LazyFrame) -> set[int]:
    """Return the ports of a log's upstreams: they identify the server where the SYN is not in the capture."""
    upstreams = rows.select(pl.col("upstream").cast(pl.String).unique()).collect(engine="streaming").to_series()
    ports = upstreams.drop_nulls().str.extract(r":(\d{1,5})$").drop_nulls()
    return {int(port) for port in ports.to_list() if 0 < int(port) < 65_536}


def _within(tracking: TrackingResult, since: datetime | None, until: datetime | None) -> TrackingResult:
    """Return the connections that began in [since, until), and the exchanges on them."""
    connections = tracking.connections
    for bound, later in ((since, True), (until, False)):
        if bound is not None:
            edge = pl.lit(bound, connections.schema["first"])
            connections = connections.filter(pl.col("first") >= edge if later else pl.col("first") < edge)
    if connections is tracking.connections:
        return tracking
    exchanges = tracking.exchanges.join(connections.select("connection"), on="connection", how="semi")
    return replace(tracking, connections=connections, exchanges=exchanges)


def _with_handshakes(frame: pl.DataFrame) -> pl.DataFrame:
    # At the server a SYN queue is unknown where no ACK was accepted; elsewhere ack_taken is the client's first ACK.
    elsewhere = {
        side: pl.col(f"{prefix}syn_queue").is_null() & pl.col(f"{side}_ack_taken").is_not_null()
        for side, prefix in (("backend", ""), ("client", "proxy_"))
    }
    return frame.with_columns(
        handshake=seconds_on_wire("backend_syn", "backend_established"),
        proxy_handshake=seconds_on_wire("client_syn", "client_established"),
        round_trip=pl.when(elsewhere["backend"]).then(seconds_on_wire("backend_syn_answered", "backend_established")),
        proxy_round_trip=pl.when(elsewhere["client"]).then(
            seconds_on_wire("client_syn_answered", "client_established")
        ),
    )


def _figures(frame: pl.DataFrame) -> dict[str, Summary]:
    return {name: summary for name, summary in summaries(frame.lazy(), tuple(FIGURES)).items() if frame[name].count()}


def _split(frame: pl.DataFrame, timelines: Timelines) -> dict[str, float | None] | None:
    """Return the means (s) of the parts of connect + queue over the joined requests that have all of them."""
    if timelines.log is None:
        return None
    logged = timelines.log.select("log_row", pl.col("queueing_delay").cast(pl.Float64))
    parts = ("queueing_delay", "syn_dropped", "handshake", "accept_wait")
    rows = frame.join(logged, on="log_row").drop_nulls(parts)
    if not len(rows):
        return None
    means = rows.select(pl.col(*parts, "syn_queue").mean()).row(0, named=True)
    # The handshake from the answered SYN on: the time before it is syn_dropped.
    means["handshake"] -= means["syn_dropped"]
    return {"requests": len(rows), **means}
