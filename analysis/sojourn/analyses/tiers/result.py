"""What the tiers of a request took, as an object and as JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import polars as pl

from sojourn.analyses.tiers.load import Load
from sojourn.analyses.tiers.verdict import Finding
from sojourn.model.figures import Summary
from sojourn.model.formatting import iso
from sojourn.model.result import Result


@dataclass(frozen=True)
class Tier:
    """One service, over all its visits.

    Attributes:
        service: its name.
        opaque: it recorded nothing: only its callers' calls are known, as ``self``.
        instances, workers: distinct ones seen; 0: the spans name none.
        visits: how many.
        queueing, self_time, downstream, span: figures, s. ``queueing`` of those visits that know theirs.
        waits_known: visits that know their queueing.
        utilisation: seconds workers were held over workers and window; None where no worker is named.
        seconds: account -> seconds of the requests' response time that were spent here.
    """

    service: str
    opaque: bool
    instances: int
    workers: int
    visits: int
    queueing: Summary
    self_time: Summary
    downstream: Summary
    span: Summary
    waits_known: int
    utilisation: float | None
    seconds: dict[str, float]

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "service": self.service, "opaque": self.opaque, "instances": self.instances, "workers": self.workers,
            "visits": self.visits, "queueing": self.queueing, "self": self.self_time, "downstream": self.downstream,
            "span": self.span, "waits_known": self.waits_known, "utilisation": self.utilisation,
            "seconds": self.seconds,
        }  # fmt: skip


@dataclass(frozen=True)
class Edge:
    """Calls from one service to another.

    Attributes:
        caller, callee: services; of an opaque callee, what its callers call it.
        opaque: the callee recorded nothing.
        calls, instances: how many, and from how many instances of the caller (0: it names none).
        seconds, queueing, network: figures of a call, s. ``network`` of calls whose queueing is known.
        time: seconds of the caller's visits that were these calls.
    """

    caller: str
    callee: str
    opaque: bool
    calls: int
    instances: int
    seconds: Summary
    queueing: Summary
    network: Summary
    time: float

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "caller": self.caller, "callee": self.callee, "opaque": self.opaque, "calls": self.calls,
            "instances": self.instances, "seconds": self.seconds, "queueing": self.queueing, "network": self.network,
            "time": self.time,
        }  # fmt: skip


@dataclass(frozen=True, repr=False)
class Tiers(Result):
    """What requests that pass several services took, and where. Durations in seconds.

    Attributes:
        spans, traces, requests: how many; a request is a tree's root, of which a trace has one.
        window: begin of the first span, end of the last.
        response: figures of a request's response time: queueing and duration at its first service; with a log, its
            own.
        queueing: figures of the seconds of a response that were queueing at any hop.
        queueing_share: of all seconds of response time.
        elsewhere: seconds of response time outside the first service, known from a log only.
        services: in the order of the seconds spent there.
        edges: most time first.
        loads: one per callee.
        finding: the case, and what would help.
        per_request: one row per request: ``trace_id``, ``service`` (the first one), ``response``, and what that is the
            sum of: ``queueing``, ``self``, ``network``, ``unknown`` (waiting or network) and ``elsewhere``.
        doubts: what was not as it should be -> how many.
        notes: what to know, and the step that mends it.
    """

    spans: int
    traces: int
    requests: int
    window: tuple[datetime, datetime]
    response: Summary
    queueing: Summary
    queueing_share: float | None
    elsewhere: float
    services: tuple[Tier, ...]
    edges: tuple[Edge, ...]
    loads: tuple[Load, ...]
    finding: Finding
    per_request: pl.DataFrame
    doubts: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def total(self) -> float:
        """Seconds of response time of all requests."""
        return float(self.per_request["response"].sum())

    def to_dict(self) -> dict[str, Any]:
        """The object that ``sojourn tiers --json`` prints."""
        begin, end = self.window
        return {
            "spans": self.spans,
            "traces": self.traces,
            "requests": self.requests,
            "window": {"from": iso(begin), "to": iso(end), "seconds": (end - begin).total_seconds()},
            "response_time": self.response,
            "queueing_delay": self.queueing,
            "queueing_share": self.queueing_share,
            "elsewhere": self.elsewhere,
            "services": [tier.to_dict() for tier in self.services],
            "edges": [edge.to_dict() for edge in self.edges],
            "loads": [load.to_dict() for load in self.loads],
            "verdict": self.finding.to_dict(),
            "doubts": self.doubts,
            "notes": list(self.notes),
        }
