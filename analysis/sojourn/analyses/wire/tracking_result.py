"""What a capture says of connections, before anything is joined."""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl


@dataclass(frozen=True)
class TrackingResult:
    """Connections and the exchanges on them.

    Attributes:
        connections: columns of ``CONNECTIONS``.
        exchanges: columns of ``EXCHANGES``.
        unparsed: payload that gave no exchanges, or less than it holds, by reason: connections that speak ``http2``,
            ``tls`` (turns without heads), ``tls_http2`` (HTTP/2 inside of TLS: no turns), something else
            (``not_http``), or of whose payload no byte was kept (``not_captured``); exchanges whose request line is not
            all there (``head_cut``); answers whose request is not in the capture (``answer_without_request``);
            connections that went on as another protocol (``upgraded``). Reasons that do not occur are left out.
    """

    connections: pl.DataFrame
    exchanges: pl.DataFrame
    unparsed: dict[str, int] = field(default_factory=dict)
