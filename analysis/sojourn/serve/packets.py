"""The packets of one request, in order, from captures of the same requests."""

from __future__ import annotations

from typing import Any

import polars as pl

from sojourn.analyses.pcap.charts_packet_request import sequence_of
from sojourn.analyses.pcap.result import WireResult

PLACES = {
    "client": "client and proxy", "backend": "proxy and backend", "app": "app", "nowhere": "not in a packet",
}  # fmt: skip


def packets_of(wire: WireResult | None, request_id: str | None) -> list[dict[str, Any]] | None:
    """Return the steps of a request on the wire; None without captures, or if the request is not in them.

    Args:
        wire: the result of the captures; None: there are none.
        request_id: the request's id; None: unknown.

    Returns:
        ``at`` (us after the first step), ``place`` (between which machines), ``to_server`` (direction), ``label`` and
        ``lost`` (whether it has no answer) of each step.
    """
    if wire is None or not request_id:
        return None
    rows = wire.timeline.with_row_index("row").filter(pl.col("request_id") == request_id)
    if rows.is_empty():
        return None
    sequence = sequence_of(wire.timeline, rows["row"][0], wire.connections, wire.exchanges)
    return [
        {
            "at": step.at / 1e3,
            "place": PLACES[step.where],
            "to_server": step.to_server,
            "label": step.label or step.key.replace("_", " "),
            "lost": step.lost,
        }
        for step in sequence.steps
    ]
