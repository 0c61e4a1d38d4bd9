"""The result of the analysis of a capture, as an object, as JSON and as Parquet."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, ClassVar

import polars as pl

from sojourn.analyses.pcap.frames import WIRE_INSTANT
from sojourn.analyses.pcap.tallies import counts_of
from sojourn.model.checks import Check
from sojourn.model.figures import Summary
from sojourn.model.formatting import iso
from sojourn.model.result import Result
from sojourn.present.files import written_whole
from sojourn.readers.capture.batch import Counts

# Columns of ``WireResult.timeline`` beyond those of ``sojourn.analyses.pcap.frames.TIMELINE``: the proxy's own queues.
PROXY_COLUMNS: dict[str, pl.DataType] = {
    "nginx_start": WIRE_INSTANT,  # when nginx had read the request's first byte, by the log
    "client_syn_answered": WIRE_INSTANT,  # as in CONNECTIONS, of the client's side
    "client_ack_taken": WIRE_INSTANT,
    "proxy_syn_dropped": pl.Float64(),  # s, client_syn_answered - client_syn
    "proxy_syn_queue": pl.Float64(),  # s, client_ack_taken - client_syn_answered, captured at the proxy
    # s, from client_established to the end of nginx_start's millisecond, or to the first packet to the backend if that
    # is earlier; includes the client's time until its request
    "proxy_accept_wait_upper": pl.Float64(),
    "proxy_unread": pl.Float64(),  # s, nginx_start - the first byte: the request waited unread, accepted or not
}

# Figures of ``WireResult.figures``, from event to event; those without proxy_ are of the backend's side.
FIGURES = {
    "handshake": "first SYN to the client's final ACK",
    "syn_dropped": "first SYN to the SYN that was answered: those before it were not accepted by a queue",
    "syn_queue": "the answered SYN to the final ACK that was accepted, captured at the backend: in its SYN queue",
    "round_trip": "the answered SYN to the client's ACK, captured elsewhere: a round trip, no queue",
    "accept_wait_lower": "the part of the wait for accept() that repeated SYN-ACKs prove, else 0",
    "accept_wait_upper": "final ACK to the first byte of the answer, minus the service time where it is known",
    "accept_wait": "final ACK to the app's own start: the accept queue, and the server's work before the app",
    "proxy_handshake": "first SYN to the final ACK, on the client's side",
    "proxy_syn_dropped": "first SYN to the SYN that was answered, on the client's side",
    "proxy_syn_queue": "the answered SYN to the final ACK that was accepted, captured at the proxy: in its SYN queue",
    "proxy_round_trip": "the answered SYN to the client's ACK, captured elsewhere: a round trip, no queue",
    "proxy_accept_wait_upper": "the client's final ACK to nginx's read of the first byte, or its packet to the backend",
    "proxy_unread": "the request's first byte on the wire to nginx's read of it",
}


@dataclass(frozen=True)
class Agreed:
    """The difference of one figure between log and wire: log minus wire, s.

    Attributes:
        figure: its name in the log.
        requests: number of joined requests with both values.
        median: of the signed difference.
        p99: of the absolute difference.
        max: of the absolute difference.
        beyond: number of requests that differ by more than nginx's resolution explains.
        spread: p99 of the absolute difference from the median, which excludes the common effect of truncated stamps.
    """

    figure: str
    requests: int
    median: float | None
    p99: float | None
    max: float | None
    beyond: int
    spread: float | None = None

    def to_dict(self) -> dict[str, object]:
        """Return an entry of ``agreement`` in the JSON output."""
        return asdict(self)


@dataclass(frozen=True)
class Joined:
    """How the log's records and the requests on the wire were joined.

    Attributes:
        log: number of records of the log within the capture's window; None: there is no log.
        by: request_id, tuple -> number of requests on the wire joined with a record.
        unjoined: reason -> number of records of the log within the window that were not joined.
        both: number of requests on both sides of the proxy.
        without_service: number of first requests of a connection without a known service time: none is subtracted.
        clock_offset: the capturing machine's clock minus nginx's, s; 0 where it is the same clock; None: unknown.
    """

    log: int | None = None
    by: dict[str, int] = field(default_factory=dict)
    unjoined: dict[str, int] = field(default_factory=dict)
    both: int = 0
    without_service: int = 0
    clock_offset: float | None = None

    @property
    def requests(self) -> int:
        """The number of records that were joined."""
        return sum(self.by.values())

    @property
    def share(self) -> float | None:
        """The share of the records within the window that were joined."""
        return self.requests / self.log if self.log else None

    def to_dict(self) -> dict[str, object]:
        """Return the ``join`` object of the JSON output."""
        return {
            "log": self.log, "joined": self.requests, "share": self.share, "by": self.by, "unjoined": self.unjoined,
            "both_sides": self.both, "without_service_time": self.without_service, "clock_offset": self.clock_offset,
        }  # fmt: skip


@dataclass(frozen=True, repr=False)
class WireResult(Result):
    """The result of the analysis of a capture. Durations are in seconds.

    Attributes:
        names: the files.
        interfaces: where they were captured.
        counts: the numbers of packets by how they were read.
        window: time of the first and last packet of all connections; None: there is no connection.
        connections: columns of CONNECTIONS, ``leg`` (client, backend or unknown), ``endpoint`` and ``vantage`` (where
            it was captured: server, client, both or unknown).
        exchanges: columns of EXCHANGES, and ``leg``.
        timeline: columns of TIMELINE and of ``PROXY_COLUMNS``.
        unparsed: payload that gave no requests, by reason.
        figures: name of ``FIGURES`` -> mean, p50, p90, p99, p999, max.
        sizes: name of ``FIGURES`` -> number of values.
        negative: name of ``FIGURES`` -> number of values below 0 (by more than nginx's resolution, where its clock is
            involved); the figures include them unchanged.
        steps: leg, step (s from the first SYN to the answered or last one), answered, connections, retransmissions; one
            row per step, in order of time.
        servers: one row per server address: server (address:port), leg, vantage,
            connections, syn_retransmissions, syn_ack_retransmissions, acks_dropped, acks_doubtful, refused, unanswered,
            reset_by_client, reset_by_server, zero_windows, retransmissions, handshake_p50, handshake_p99; busiest
            first.
        ends: how connections ended -> count.
        joined: the join with the log, and of both sides.
        agreement: log against wire; empty without a log.
        differences: one column per figure of ``agreement``: log minus wire, s, of each joined request.
        split: means (s) over the joined first requests that have all of them: queueing_delay (the split's) and its
            parts syn_dropped, handshake (from the answered SYN) and accept_wait; syn_queue (None: not captured at the
            backend); and requests, their number. None without such requests.
        checks: comparisons with a threshold.
        findings: what the figures mean, in sentences, the most severe first.
        notes: how they were measured.
        has_log: whether there was a log to join.
        kernel: the result of the kernel samples, if there are any.
    """

    TABLES: ClassVar = ("connections", "exchanges", "timeline", "servers", "steps", "agreement")

    names: tuple[str, ...]
    interfaces: tuple[str, ...]
    counts: Counts
    window: tuple[datetime, datetime] | None
    connections: pl.DataFrame
    exchanges: pl.DataFrame
    timeline: pl.DataFrame
    unparsed: dict[str, int] = field(default_factory=dict)
    figures: dict[str, Summary] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    negative: dict[str, int] = field(default_factory=dict)
    steps: pl.DataFrame = field(default_factory=pl.DataFrame)
    servers: pl.DataFrame = field(default_factory=pl.DataFrame)
    ends: dict[str, int] = field(default_factory=dict)
    joined: Joined = field(default_factory=Joined)
    agreement: tuple[Agreed, ...] = ()
    differences: pl.DataFrame = field(default_factory=pl.DataFrame)
    split: dict[str, float | None] | None = None
    checks: tuple[Check, ...] = ()
    findings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    has_log: bool = False
    kernel: Any = None

    @property
    def syn_retransmissions(self) -> int:
        """The number of repeated SYNs, on both sides of the proxy."""
        return int(self.connections["syn_retransmissions"].sum() or 0)

    @property
    def duplicates(self) -> int:
        """The number of duplicate packets; other figures count each packet once."""
        return int(self.connections["copies"].sum() or 0)

    def to_dict(self, limit: int = 100) -> dict[str, Any]:
        """Return the object of ``sojourn pcap --json``, with at most ``limit`` requests in order of time."""
        counts = self.counts
        window = None
        if self.window:
            seconds = (self.window[1] - self.window[0]).total_seconds()
            window = {"from": iso(self.window[0]), "to": iso(self.window[1]), "seconds": seconds}
        return {
            "packets": counts.packets,
            "segments": counts.segments,
            "undecoded": sum(counts.undecoded.values()),
            "undecoded_reasons": counts.undecoded,
            "other": counts.other,
            "tunnels": counts.tunnels,
            "cut": counts.cut,
            "duplicates": self.duplicates,
            "damaged": counts.damaged,
            "dropped": counts.dropped,
            "window": window,
            "connections": len(self.connections),
            "legs": counts_of(self.connections, "leg"),
            "protocols": counts_of(self.connections, "protocol"),
            "ends": self.ends,
            "exchanges": len(self.exchanges),
            "unparsed": self.unparsed,
            "syn_retransmissions": self.syn_retransmissions,
            "syn_steps": self.steps.to_dicts(),
            "servers": self.servers.to_dicts(),
            "handshake": self.figures.get("handshake"),
            "accept_wait_bounds": {
                "lower": self.figures.get("accept_wait_lower"),
                "upper": self.figures.get("accept_wait_upper"),
            },
            "accept_wait": self.figures.get("accept_wait"),
            "figures": {
                name: {"requests": self.sizes.get(name, 0), "negative": self.negative.get(name, 0), **summary}
                for name, summary in self.figures.items()
            },
            "joined": self.joined.requests,
            "join": self.joined.to_dict(),
            "agreement": [agreed.to_dict() for agreed in self.agreement],
            "split": self.split,
            "checks": [check.to_dict() for check in self.checks],
            "findings": self.findings,
            "notes": self.notes,
            "kernel": None if self.kernel is None else self.kernel.to_dict(),
            "requests": [_plain(row) for row in self.timeline.head(limit).iter_rows(named=True)],
            "requests_left_out": max(len(self.timeline) - limit, 0),
        }

    def to_split(self) -> dict[str, Any]:
        """Return the ``wire`` object of ``sojourn split --json``: connect + queue of joined requests, from packets."""
        whole = self.to_dict(limit=0)
        keys = (
            "packets",
            "undecoded",
            "connections",
            "syn_retransmissions",
            "syn_steps",
            "joined",
            "join",
            "agreement",
        )
        parts = ("handshake", "syn_dropped", "syn_queue", "accept_wait", "accept_wait_lower", "accept_wait_upper")
        return {
            "means": self.split,
            "components": {name: whole["figures"][name] for name in parts if name in whole["figures"]},
            **{name: whole[name] for name in keys},
        }

    def write_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write ``timeline`` to a Parquet file, whole or not at all.

        Raises:
            SojournError: the file cannot be written.
        """
        with written_whole(path, pl.exceptions.PolarsError) as partial:
            self.timeline.write_parquet(partial, compression="zstd")


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of the timeline with its times as text, to the microsecond."""
    return {
        key: value.isoformat(timespec="microseconds").replace("+00:00", "Z") if isinstance(value, datetime) else value
        for key, value in row.items()
    }
