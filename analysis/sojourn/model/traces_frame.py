"""The frame of traces: one row per span of any kind, from any reader."""

from __future__ import annotations

import polars as pl

KINDS = ("unspecified", "internal", "server", "client", "producer", "consumer")
TRACES_SCHEMA: dict[str, pl.DataType] = {
    "trace_id": pl.String(),
    "span_id": pl.String(),
    "parent_span_id": pl.String(),  # null: a root
    "service": pl.String(),  # service.name
    "instance": pl.String(),  # which of the service's instances: the first of INSTANCE that is there
    "kind": pl.String(),  # one of KINDS
    "name": pl.String(),
    "peer": pl.String(),  # the callee of a CLIENT span, if known: the first attribute of PEER that is present
    "start": pl.Int64(),  # unix ns, the clock of the service
    "end": pl.Int64(),
    "queueing_delay": pl.Float64(),  # s, queueing.delay, corrected by the app; queueing.delay.raw without it; signed
    "worker": pl.String(),  # queueing.worker
    "request_id": pl.String(),  # http.request.header.x-request-id
}
# Semantic conventions of OpenTelemetry: resource attributes that tell instances apart, from the surest on.
INSTANCE = ("service.instance.id", "k8s.pod.name", "container.id", "host.name")
# And what a CLIENT span calls its callee. (db.system is what db.system.name was called before it was stable.)
PEER = ("peer.service", "service.peer.name", "db.system.name", "db.system", "rpc.service", "server.address")
