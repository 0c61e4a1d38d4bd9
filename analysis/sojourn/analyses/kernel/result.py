"""The result of ``kernel``."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Literal

import polars as pl

from sojourn.model.formatting import iso
from sojourn.model.frame import INSTANT, Records
from sojourn.model.result import Result

SOCKET_FIGURES: dict[str, pl.DataType] = {
    "socket": pl.String(),  # its name, with its address if several have that name
    "address": pl.String(),
    "port": pl.Int32(),  # null: a Unix socket
    "samples": pl.Int64(),
    "last": pl.Int64(),  # depth in the last sample, connections
    "deepest": pl.Int64(),
    "deepest_at": INSTANT,
    "mean": pl.Float64(),  # depth, over samples
    "limit": pl.Int64(),  # the backlog in force, in the last sample; the queue holds one more
    "full": pl.Int64(),  # samples with the queue full: depth above limit
    "full_share": pl.Float64(),
    "asked": pl.Int64(),  # requested backlog; null: unknown  # codespell:ignore asked
    "syn_recv": pl.Int64(),  # the most handshakes under way; null: unknown
    "open_while_full": pl.Int64(),  # the most handshakes under way in samples with the queue full
}
DEPTHS: dict[str, pl.DataType] = {
    "begin": INSTANT,
    "socket": pl.String(),
    "depth": pl.Int64(),  # the deepest of the window; null: no sample
    "limit": pl.Int64(),
    "syn_recv": pl.Int64(),
}
EVENTS: dict[str, pl.DataType] = {
    "begin": INSTANT,
    "end": INSTANT,
    "overflows": pl.Int64(),  # ListenOverflows
    "other_drops": pl.Int64(),  # ListenDrops less ListenOverflows
    "syn_drops": pl.Int64(),  # TCPReqQFullDrop: among other_drops
    "cookies": pl.Int64(),  # SyncookiesSent
}
RAINDROPS_FIGURES: dict[str, pl.DataType] = {
    "endpoint": pl.String(),
    "answers": pl.Int64(),
    "unanswered": pl.Int64(),
    "slowest": pl.Float64(),  # s
    "calling": pl.Int64(),  # the most requests in the app
    "queued": pl.Int64(),  # the most connections waiting, all listeners
}
SERVER_FIGURES: dict[str, pl.DataType] = {
    "server": pl.String(),  # its address
    "kind": pl.String(),
    "answers": pl.Int64(),
    "unanswered": pl.Int64(),
    "reason": pl.String(),  # why there was no answer, the last time; null: there always was
    "slowest": pl.Float64(),  # s
    "workers": pl.Int64(),  # in the last answer that has them; null: unknown
    "busy": pl.Int64(),  # the most workers, or requests, in service; null: unknown
    "busy_mean": pl.Float64(),
    "waiting": pl.Int64(),  # in the last answer that has it; null: unknown
    "deepest": pl.Int64(),  # the most that waited
    "deepest_at": INSTANT,
    "waiting_mean": pl.Float64(),
    "limit": pl.Int64(),  # of the queue, in the last answer that has it; null: unknown, or none
    "all_busy": pl.Int64(),  # answers with all workers busy; null: unknown
    "all_busy_share": pl.Float64(),
    "saturated": pl.Int64(),  # answers with all workers busy and something waiting; null: unknown
    "saturated_share": pl.Float64(),
    "limit_reached": pl.Int64(),  # increase of the server's counter; null: unknown
    "requests": pl.Int64(),  # increase of the server's counter; null: unknown
    "event_loop_delay_p99": pl.Float64(),  # s, the largest; null: unknown
    "event_loop_delay_max": pl.Float64(),  # s, the largest
    "event_loop_utilisation": pl.Float64(),  # the largest
    "event_loop_full_share": pl.Float64(),  # share of answers with a utilisation of at least LOOP_FULL
}
LOOP_FULL = 0.95
"""Utilisation of an event loop from which on it counts as full."""
QUEUES: dict[str, pl.DataType] = {
    "begin": INSTANT,
    "server": pl.String(),
    "waiting": pl.Int64(),  # the most of the window; null: no answer
    "busy": pl.Int64(),  # the most of the window
    "workers": pl.Int64(),
}

Weight = Literal["lost", "risk", "note"]


@dataclass(frozen=True)
class Finding:
    """A finding and its remedy.

    Attributes:
        key: one of overflowed, filled, missed, cut, probably_cut, other_drops, cookies, abort_on_overflow,
            cookies_off, cookies_always, deferred, steps, saturated, workers_busy, limit_reached, event_loop,
            unanswered.
        weight: lost (clients had to try again, or failed), risk, or note.
        socket: the socket; None: the whole namespace, or a server.
        server: the address of a server; None: it is no server.
        sentence, mend: the finding and its remedy; ``mend`` is empty without a remedy.
    """

    key: str
    weight: Weight
    sentence: str
    mend: str = ""
    socket: str | None = None
    server: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the entry of the JSON output."""
        about = {"key": self.key, "weight": self.weight, "socket": self.socket, "server": self.server}
        return {**about, "sentence": self.sentence, "mend": self.mend or None}


@dataclass(frozen=True, repr=False)
class KernelResult(Result):
    """The queues before accept() in a window of time.

    Attributes:
        samples: number of samples.
        period: median seconds between them; None with one sample.
        begin, end, seconds: of the window.
        sockets: columns of ``SOCKET_FIGURES``, largest losses first.
        depths: columns of ``DEPTHS``, over time.
        events: columns of ``EVENTS``, between samples.
        increases: of each counter over the window; without those the kernel does not have.
        unseen: overflows between two samples neither of which saw a full queue.
        resets: number of counter resets; the increase across a reset is unknown and not counted.
        settings: values in force at the end.
        changed: names of settings that changed.
        raindrops: columns of ``RAINDROPS_FIGURES``.
        servers: columns of ``SERVER_FIGURES``; those of raindrops, too.
        queues: columns of ``QUEUES``, over time.
        unavailable: source -> (samples that could not read it, the last reason).
        missing: samples that were due by the period and are missing.
        backward: number of times the clock was set back.
        findings: the most serious first.
        records: counts of lines read and refused.
        names: names of the files.
    """

    TABLES: ClassVar = ("sockets", "depths", "events", "servers", "queues", "raindrops", "findings")

    samples: int
    period: float | None
    begin: datetime
    end: datetime
    seconds: float
    sockets: pl.DataFrame
    depths: pl.DataFrame
    events: pl.DataFrame
    increases: dict[str, int]
    unseen: int
    resets: int
    settings: dict[str, int]
    changed: tuple[str, ...]
    raindrops: pl.DataFrame
    servers: pl.DataFrame
    queues: pl.DataFrame
    unavailable: dict[str, tuple[int, str]]
    missing: int
    backward: int
    findings: tuple[Finding, ...] = ()
    records: Records | None = None
    names: tuple[str, ...] = ()

    @property
    def overflows(self) -> int | None:
        """Packets refused because an accept queue was full; None: not known."""
        return self.increases.get("ListenOverflows")

    @property
    def other_drops(self) -> int | None:
        """Packets refused for another reason: ListenDrops include the overflows."""
        drops = self.increases.get("ListenDrops")
        return None if drops is None or self.overflows is None else drops - self.overflows

    @property
    def syn_drops(self) -> int | None:
        """SYNs dropped because the SYN queue was full, and no cookie was sent; None: not known."""
        return self.increases.get("TCPReqQFullDrop")

    @property
    def cookies(self) -> int | None:
        """SYN cookies sent: the SYN queue was full, and no client was refused for it; None: unknown."""
        return self.increases.get("SyncookiesSent")

    def to_dict(self) -> dict[str, Any]:
        """Return the object that ``sojourn kernel --json`` prints."""
        rate = 1 / self.seconds if self.seconds > 0 else None
        return {
            **({} if self.records is None else {"records": self.records.to_dict()}),
            "samples": self.samples,
            "period": self.period,
            "missing": self.missing,
            "window": {"from": iso(self.begin), "to": iso(self.end), "seconds": self.seconds},
            "sockets": self.sockets.to_dicts(),
            "listen_overflows": self.overflows,
            "other_listen_drops": self.other_drops,
            "syn_queue_drops": self.syn_drops,
            "cookies_sent": self.cookies,
            "overflows_unseen": self.unseen,
            "counters": {
                name: {"increase": increase, "per_second": None if rate is None else increase * rate}
                for name, increase in self.increases.items()
            },
            "counter_resets": self.resets,
            "clock_set_back": self.backward,
            "settings": self.settings,
            "settings_changed": list(self.changed),
            "raindrops": self.raindrops.to_dicts(),
            "servers": self.servers.to_dicts(),
            "unavailable": {
                what: {"samples": count, "reason": reason} for what, (count, reason) in self.unavailable.items()
            },
            "findings": [finding.to_dict() for finding in self.findings],
        }
