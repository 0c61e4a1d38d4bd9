"""The content of the packet sequence chart: one request's packets in order, and the queues between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from sojourn.analyses.pcap.charts_packet_spans import Span, backend_spans, latest_start, nginx_had_accepted, proxy_spans
from sojourn.analyses.pcap.charts_packet_steps import NOWHERE, Row, Step, backend_steps, request_steps, response_steps
from sojourn.analyses.pcap.frames import CONNECTIONS, TIMELINE
from sojourn.model.formatting import printable


@dataclass(frozen=True)
class Sequence:
    """The steps of a request in order, the spans between them, and its title."""

    steps: tuple[Step, ...]
    spans: tuple[Span, ...]
    title: str
    client: str
    backend: str


def sequence_of(timeline: pl.DataFrame, row: int, connections: pl.DataFrame, exchanges: pl.DataFrame) -> Sequence:
    """Return the steps and spans of the request in a row of a TIMELINE.

    CONNECTIONS, where they are known, give the number of repeated SYNs, and resets; EXCHANGES their requests.
    """
    request = _in_ns(timeline[row : row + 1], TIMELINE)
    client = _connection(request["client_exchange"], connections, exchanges)
    backend = _connection(request["backend_exchange"], connections, exchanges)
    steps = [*request_steps(request, client), *backend_steps(request, backend), *response_steps(request, client)]
    spans = [*proxy_spans(request, client), *backend_spans(request, backend)]
    for key, bound in (("latest_start", latest_start(request)), ("nginx_start", nginx_had_accepted(request))):
        if bound is not None:
            steps.append(Step(key, bound, NOWHERE))
    # Packets with the same time keep the order of the list, from cause to effect.
    steps.sort(key=lambda step: step.at)
    first = steps[0].at if steps else 0
    since = tuple(replace(step, at=step.at - first) for step in steps)
    keys = {step.key for step in since}
    return Sequence(
        steps=since,
        spans=tuple(span for span in spans if {span.begin, span.end} <= keys),
        title=_title(request),
        client=printable(request["client"] or "", 60),
        backend=printable(request["backend"] or "", 60),
    )


def _in_ns(frame: pl.DataFrame, schema: Mapping[str, pl.DataType]) -> dict[str, Any]:
    # Python's datetime resolves microseconds, which is too coarse for handshakes on one machine.
    instants = [name for name, kind in frame.schema.items() if isinstance(kind, pl.Datetime)]
    row = frame.with_columns(pl.col(instants).dt.epoch("ns")).row(0, named=True)
    return {**dict.fromkeys(schema), **row}


def _connection(exchange: int | None, connections: pl.DataFrame, exchanges: pl.DataFrame) -> dict[str, Any]:
    """Return the connection of an exchange, with the request's ``number`` on it; empty if unknown."""
    if exchange is None:
        return {}
    matches = exchanges.filter(pl.col("exchange") == exchange)
    if matches.is_empty():
        return {}
    rows = connections.filter(pl.col("connection") == matches["connection"][0])
    return {} if rows.is_empty() else {**_in_ns(rows, CONNECTIONS), "number": matches["number"][0]}


def _title(request: Row) -> str:
    if request["method"] is None and request["path"] is None:
        head = "a request without a visible head"
    else:
        head = f"{printable(request['method'] or '', 12)} {printable(request['path'] or '', 60)}".strip()
    head += f" → {request['status']}" if request["status"] is not None else " → no answer"
    attempts = request["attempts"] or 0
    return head + (f", the last of {attempts} attempts" if attempts > 1 else "")
