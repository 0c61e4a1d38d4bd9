"""The result of tiers: figures by service and by call, as an object and as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, ClassVar

import polars as pl

from sojourn.analyses.tiers.load_dependence import LoadDependence
from sojourn.analyses.tiers.verdict import Finding
from sojourn.model.figures import Summary
from sojourn.model.formatting import iso
from sojourn.model.result import Result


@dataclass(frozen=True)
class Tier:
    """One service, over all its visits.

    Attributes:
        service: its name.
        opaque: it recorded no spans: only its callers' calls are known, as ``self``.
        instances, workers: distinct ones in the spans; 0: the spans name none.
        visits: number of visits.
        queueing, self_time, downstream, span: figures, s. ``queueing``: of visits with a known queueing delay.
        waits_known: number of visits with a known queueing delay.
        utilisation: seconds workers were held over workers and window; None if no worker is named.
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
        """Return plain values for JSON."""
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
        caller, callee: services; of an opaque callee, the name in its callers' spans.
        opaque: the callee recorded no spans.
        calls, instances: number of calls, and of calling instances (0: the caller names none).
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
        """Return plain values for JSON."""
        return asdict(self)


@dataclass(frozen=True, repr=False)
class Tiers(Result):
    """Response time by service of requests that pass several services. Durations in seconds.

    Attributes:
        spans, traces, requests: numbers; a request is the root of a tree, one per trace.
        window: begin of the first span, end of the last.
        response: figures of a request's response time: queueing and duration at its first service; with a log, its
            own.
        queueing: figures of the seconds of a response that were queueing at any hop.
        queueing_share: of all seconds of response time.
        elsewhere: seconds of response time outside the first service, known from a log only.
        services: in the order of the seconds spent there.
        edges: most time first.
        loads: one per callee.
        finding: the bottleneck, and the change that would help.
        per_request: one row per request: ``trace_id``, ``service`` (the first one), ``response``, and its parts:
            ``queueing``, ``self``, ``network``, ``unknown`` (waiting or network) and ``elsewhere``.
        doubts: kind of defect -> number.
        notes: caveats, and how to correct their causes.
    """

    TABLES: ClassVar = ("services", "edges", "loads", "per_request")

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
    loads: tuple[LoadDependence, ...]
    finding: Finding
    per_request: pl.DataFrame
    doubts: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def total(self) -> float:
        """Return the seconds of response time of all requests."""
        return float(self.per_request["response"].sum())

    def to_dict(self) -> dict[str, Any]:
        """Return the object that ``sojourn tiers --json`` prints."""
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
