"""What the packet sequence chart shows of one request: its packets in their order, and the queues between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from sojourn.analyses.wire.charts_packet_spans import Span, backend_spans, latest_start, nginx_had_accepted, proxy_spans
from sojourn.analyses.wire.charts_packet_steps import NOWHERE, Row, Step, backend_steps, request_steps, response_steps
from sojourn.analyses.wire.frames import CONNECTIONS, TIMELINE
from sojourn.model.formatting import printable


@dataclass(frozen=True)
class Sequence:
    """Steps from the first to the last, the spans between them, and what the request is called."""

    steps: tuple[Step, ...]
    spans: tuple[Span, ...]
    title: str
    client: str
    backend: str


def sequence_of(
    timeline: pl.DataFrame,
    row: int,
    connections: pl.DataFrame | None = None,
    exchanges: pl.DataFrame | None = None,
) -> Sequence:
    """The steps and spans of a row of ``timeline`` (TIMELINE).

    ``connections`` and ``exchanges`` (CONNECTIONS, EXCHANGES) tell of repeated SYNs and of resets; without them a SYN
    that was repeated is seen, and how often is not.
    """
    request = _in_ns(timeline[row : row + 1], TIMELINE)
    client = _connection(request["client_exchange"], connections, exchanges)
    backend = _connection(request["backend_exchange"], connections, exchanges)
    steps = [*request_steps(request, client), *backend_steps(request, backend), *response_steps(request, client)]
    spans = [*proxy_spans(request, client), *backend_spans(request, backend)]
    for key, bound in (("latest_start", latest_start(request)), ("nginx_start", nginx_had_accepted(request))):
        if bound is not None:
            steps.append(Step(key, bound, NOWHERE))
    # Packets of one instant keep the order they are listed in, which is that of cause and effect.
    steps.sort(key=lambda step: step.at)
    first = steps[0].at if steps else 0
    since = tuple(Step(s.key, s.at - first, s.where, s.label, s.to_server, s.lost) for s in steps)
    keys = {step.key for step in since}
    return Sequence(
        steps=since,
        spans=tuple(span for span in spans if {span.begin, span.end} <= keys),
        title=_title(request),
        client=printable(request["client"] or "", 60),
        backend=printable(request["backend"] or "", 60),
    )


def _in_ns(frame: pl.DataFrame, schema: Mapping[str, pl.DataType]) -> dict[str, Any]:
    # Python's own instants end at the microsecond, where handshakes on one machine begin.
    instants = [name for name, kind in frame.schema.items() if isinstance(kind, pl.Datetime)]
    row = frame.with_columns(pl.col(instants).dt.epoch("ns")).row(0, named=True)
    return {**dict.fromkeys(schema), **row}


def _connection(
    exchange: int | None, connections: pl.DataFrame | None, exchanges: pl.DataFrame | None
) -> dict[str, Any]:
    """The connection of an exchange, with ``number``: which of its requests this is; empty where it is not known."""
    if exchange is None or connections is None or exchanges is None:
        return {}
    found = exchanges.filter(pl.col("exchange") == exchange)
    if found.is_empty():
        return {}
    mine = connections.filter(pl.col("connection") == found["connection"][0])
    return {} if mine.is_empty() else {**_in_ns(mine, CONNECTIONS), "number": found["number"][0]}


def _title(request: Row) -> str:
    if request["method"] is None and request["path"] is None:
        head = "a request whose head is not to be seen"
    else:
        head = f"{printable(request['method'] or '', 12)} {printable(request['path'] or '', 60)}".strip()
    head += f" → {request['status']}" if request["status"] is not None else " → no answer"
    attempts = request["attempts"] or 0
    return head + (f", the last of {attempts} attempts" if attempts > 1 else "")
