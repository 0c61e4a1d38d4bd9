"""What a capture shows, as an object, as JSON and as Parquet."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import polars as pl

from sojourn.analyses.wire.frames import WIRE_INSTANT
from sojourn.model.checks import Check
from sojourn.model.figures import Summary
from sojourn.model.formatting import iso
from sojourn.model.result import Result
from sojourn.present.files import written_whole
from sojourn.readers.capture.batch import Counts

# Columns of ``WireResult.timeline`` beyond those of ``sojourn.analyses.wire.frames.TIMELINE``: the proxy's own queues.
PROXY_COLUMNS: dict[str, pl.DataType] = {
    "nginx_start": WIRE_INSTANT,  # when nginx had read the request's first byte, by the log: it had accepted by then
    "client_syn_answered": WIRE_INSTANT,  # as those of CONNECTIONS, of the client's side
    "client_ack_taken": WIRE_INSTANT,
    "proxy_syn_dropped": pl.Float64(),  # s, client_syn_answered - client_syn
    "proxy_syn_queue": pl.Float64(),  # s, client_ack_taken - client_syn_answered, captured at the proxy
    # s, from client_established to the end of nginx_start's millisecond, or to the first packet to the backend where
    # that came sooner; holds what the client took to ask
    "proxy_accept_wait_upper": pl.Float64(),
    "proxy_unread": pl.Float64(),  # s, nginx_start - the first byte: the request lay there, accepted or not
}

# Figures of ``WireResult.figures``, each from which event to which. All of the backend's side but the proxy_ ones.
FIGURES = {
    "handshake": "first SYN to the client's final ACK",
    "syn_dropped": "first SYN to the SYN that was answered: no queue took those before it",
    "syn_queue": "the SYN that was answered to the final ACK that was taken, captured at the backend: in its SYN queue",
    "round_trip": "the SYN that was answered to the client's ACK, captured elsewhere: a round trip, no queue",
    "accept_wait_lower": "what repeated SYN-ACKs prove of the wait for accept(), else 0",
    "accept_wait_upper": "final ACK to the first byte of the answer, less the service time where it is known",
    "accept_wait": "final ACK to the app's own start: the accept queue, and what the server does before the app",
    "proxy_handshake": "first SYN to the final ACK, on the client's side",
    "proxy_syn_dropped": "first SYN to the SYN that was answered, on the client's side",
    "proxy_syn_queue": "the SYN that was answered to the final ACK that was taken, captured at the proxy: in its queue",
    "proxy_round_trip": "the SYN that was answered to the client's ACK, captured elsewhere: a round trip, no queue",
    "proxy_accept_wait_upper": "the client's final ACK to nginx having read the first byte, or turned to the backend",
    "proxy_unread": "the request's first byte on the wire to nginx reading it",
}


@dataclass(frozen=True)
class Agreed:
    """One figure as the log has it against what the wire shows: log less wire, s.

    Attributes:
        figure: the log's name of it.
        requests: joined requests that have both.
        median: of the difference, signed. p99, max: of its absolute value.
        beyond: requests that differ by more than nginx's resolution explains.
        spread: p99 of the absolute difference from the median: without what truncated stamps add to all of them.
    """

    figure: str
    requests: int
    median: float | None
    p99: float | None
    max: float | None
    beyond: int
    spread: float | None = None

    def to_dict(self) -> dict[str, object]:
        """An entry of ``agreement`` in the JSON output."""
        return {
            "figure": self.figure, "requests": self.requests, "median": self.median, "p99": self.p99, "max": self.max,
            "beyond": self.beyond, "spread": self.spread,
        }  # fmt: skip


@dataclass(frozen=True)
class Joined:
    """How the log's records and the requests on the wire were joined.

    Attributes:
        log: records of the log within the capture's window; None: no log was given.
        by: request_id, tuple -> requests on the wire joined to a record.
        unjoined: reason -> records of the log within the window that were not.
        both: requests seen on both sides of the proxy.
        without_service: first requests of a connection whose service time nobody tells: none is subtracted.
        clock_offset: the capturing machine's clock less nginx's, s; 0 where they are one; None: nothing tells.
    """

    log: int | None = None
    by: dict[str, int] = field(default_factory=dict)
    unjoined: dict[str, int] = field(default_factory=dict)
    both: int = 0
    without_service: int = 0
    clock_offset: float | None = None

    @property
    def requests(self) -> int:
        """Records that were found on the wire."""
        return sum(self.by.values())

    @property
    def share(self) -> float | None:
        """Of the records within the window, those that were found."""
        return self.requests / self.log if self.log else None

    def to_dict(self) -> dict[str, object]:
        """The ``join`` object of the JSON output."""
        return {
            "log": self.log, "joined": self.requests, "share": self.share, "by": self.by, "unjoined": self.unjoined,
            "both_sides": self.both, "without_service_time": self.without_service, "clock_offset": self.clock_offset,
        }  # fmt: skip


@dataclass(frozen=True, repr=False)
class WireResult(Result):
    """What a capture shows. Durations in seconds.

    Attributes:
        names, interfaces: what was read, and where it had been captured.
        counts: what became of the packets.
        window: first and last packet of a connection; None: there was none.
        connections: columns of CONNECTIONS, ``leg`` (client, backend or unknown), ``endpoint`` and ``vantage`` (where
            it was captured: server, client, both or unknown).
        exchanges: columns of EXCHANGES, and ``leg``.
        timeline: columns of TIMELINE and of ``PROXY_COLUMNS``.
        unparsed: payload that gave no requests, by reason.
        figures: name of ``FIGURES`` -> mean, p50, p90, p99, p999, max.
        sizes: name of ``FIGURES`` -> how many values it has.
        negative: name of ``FIGURES`` -> how many values are below 0 (by more than nginx's resolution, where its clock
            has a part in them); they are in the figures as they are.
        steps: leg, step (s after the first SYN, at which the connection was answered or last tried), answered,
            connections, retransmissions; one row per step, the first first.
        servers: one row per address that was connected to: server (address:port), leg, vantage,
            connections, syn_retransmissions, syn_ack_retransmissions, acks_dropped, acks_doubtful, refused, unanswered,
            reset_by_client, reset_by_server, zero_windows, retransmissions, handshake_p50, handshake_p99; busiest
            first.
        ends: how connections ended -> how many.
        joined: with the log, and of both sides.
        agreement: log against wire; empty without a log.
        differences: one column per figure of ``agreement``: log less wire, s, of each joined request.
        split: of joined first requests that have all of them, means (s): queueing_delay (the split's), syn_dropped,
            handshake (of the SYN that was answered), accept_wait, which make it up, and syn_queue (None: not captured
            at the backend); and requests, how many. None where there is none.
        checks: what was held against a threshold.
        findings: what the figures mean, in sentences, the gravest first.
        notes: what to know of how they were made.
        log_given: whether there was a log to join.
        kernel: what the kernel's samples tell, where there are some.
    """

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
    log_given: bool = False
    kernel: Any = None

    @property
    def syn_retransmissions(self) -> int:
        """SYNs that were sent again, on either side of the proxy."""
        return int(self.connections["syn_retransmissions"].sum() or 0)

    @property
    def duplicates(self) -> int:
        """Packets that are in the capture more than once; each of them counts once in every other figure."""
        return int(self.connections["copies"].sum() or 0)

    def to_dict(self, limit: int = 100) -> dict[str, Any]:
        """The object that ``sojourn pcap --json`` prints, with ``limit`` requests at most, in the order of time."""
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
            "legs": _counted(self.connections, "leg"),
            "protocols": _counted(self.connections, "protocol"),
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
        """The ``wire`` object of ``sojourn split --json``: connect + queue of joined requests, by the packets."""
        whole = self.to_dict(limit=0)
        kept = (
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
            **{name: whole[name] for name in kept},
        }

    def write_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write ``timeline`` to a Parquet file, whole or not at all.

        Raises:
            SojournError: the file cannot be written.
        """
        with written_whole(path, pl.exceptions.PolarsError) as partial:
            self.timeline.write_parquet(partial, compression="zstd")


def _counted(table: pl.DataFrame, column: str) -> dict[str, int]:
    if column not in table.columns:
        return {}
    counted = table.group_by(pl.col(column).cast(pl.String)).len().sort("len", column, descending=[True, False])
    return {str(value): int(count) for value, count in counted.iter_rows()}


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """A row of the timeline with its instants as text: to the microsecond, a capture is that fine."""
    return {
        key: value.isoformat(timespec="microseconds").replace("+00:00", "Z") if isinstance(value, datetime) else value
        for key, value in row.items()
    }
