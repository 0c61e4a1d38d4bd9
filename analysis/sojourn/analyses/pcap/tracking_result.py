"""Connections and exchanges of a capture, before they are joined."""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl


@dataclass(frozen=True)
class TrackingResult:
    """Connections and the exchanges on them.

    Attributes:
        connections: columns of ``CONNECTIONS``.
        exchanges: columns of ``EXCHANGES``.
        unparsed: reason -> count of payload that gave no exchanges, or incomplete ones: connections with ``http2``,
            ``tls`` (turns without heads), ``tls_http2`` (HTTP/2 over TLS: no turns), another protocol (``not_http``) or
            without captured payload (``not_captured``); exchanges with an incomplete request line (``head_cut``);
            answers without a request in the capture (``answer_without_request``); connections upgraded to another
            protocol (``upgraded``). Reasons that do not occur are left out.
    """

    connections: pl.DataFrame
    exchanges: pl.DataFrame
    unparsed: dict[str, int] = field(default_factory=dict)
