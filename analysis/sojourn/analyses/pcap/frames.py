"""The frames of a capture: instants are UTC in ns by the capturing machine's clock, durations are seconds."""

from __future__ import annotations

import polars as pl

WIRE_INSTANT = pl.Datetime("ns", "UTC")

PROTOCOLS = ("http", "http2", "tls", "other", "none")
"""The protocol of a connection, detected from its first bytes; none: no payload was captured."""

ENDS = ("open", "fin", "reset_by_client", "reset_by_server", "refused", "unanswered")
"""How a connection ends within the capture. refused: a reset in answer to the SYN; unanswered: no answer to any SYN."""

CONNECTIONS: dict[str, pl.DataType] = {
    "connection": pl.Int64(),  # from 0, in the order of their first packet
    "client": pl.String(),  # address that sent the SYN; without a SYN in the capture, the one that is not the server's
    "client_port": pl.Int32(),
    "server": pl.String(),
    "server_port": pl.Int32(),
    "first": WIRE_INSTANT,  # first and last packet
    "last": WIRE_INSTANT,
    "syn": WIRE_INSTANT,  # the first SYN; null: before the capture
    "syn_answered": WIRE_INSTANT,  # the last SYN before the first SYN-ACK: those before it were dropped
    "syn_ack": WIRE_INSTANT,  # the first SYN-ACK
    "established": WIRE_INSTANT,  # the first ACK after it: the handshake ends for the client
    "ack_taken": WIRE_INSTANT,  # the client's packet after the last SYN-ACK of acks_dropped; else = established
    "syn_retransmissions": pl.Int32(),
    "syn_ack_retransmissions": pl.Int32(),
    # SYN-ACKs repeated after `established`, the server having sent nothing else. Captured at the server, the first kind
    # proves that it dropped a final ACK; for the second (doubtful) there are other explanations.
    "acks_dropped": pl.Int32(),
    "acks_doubtful": pl.Int32(),
    "client_retransmissions": pl.Int32(),  # of segments with payload
    "server_retransmissions": pl.Int32(),
    "client_zero_windows": pl.Int32(),  # segments that announce a window of 0
    "server_zero_windows": pl.Int32(),
    "client_bytes": pl.Int64(),  # payload, each byte once
    "server_bytes": pl.Int64(),
    "gaps": pl.Int32(),  # parts of the payload that are not in the capture
    "copies": pl.Int32(),  # duplicates of packets; no other column counts them
    "packets": pl.Int32(),
    "client_data": WIRE_INSTANT,  # first payload of either side
    "server_data": WIRE_INSTANT,
    "client_fin": WIRE_INSTANT,
    "server_fin": WIRE_INSTANT,
    "reset": WIRE_INSTANT,
    "end": pl.Enum(ENDS),
    "protocol": pl.Enum(PROTOCOLS),
    "tls_client_hello": WIRE_INSTANT,
    "tls_server_hello": WIRE_INSTANT,
    "tls_ready": WIRE_INSTANT,  # the client's first record of application data
    "exchanges": pl.Int32(),
}
"""One row per TCP connection; a reused pair of address and port is another connection."""

EXCHANGES: dict[str, pl.DataType] = {
    "exchange": pl.Int64(),
    "connection": pl.Int64(),
    "number": pl.Int32(),  # from 1, on its connection
    "request_first": WIRE_INSTANT,  # first and last packet of the request's bytes, of the answer's bytes
    "request_last": WIRE_INSTANT,
    "response_first": WIRE_INSTANT,  # null: no answer
    "response_last": WIRE_INSTANT,
    "request_bytes": pl.Int64(),
    "response_bytes": pl.Int64(),
    "retransmissions": pl.Int32(),  # of either side, from the request's first byte to the next request
    "method": pl.String(),  # null: the head is not visible (TLS, not captured)
    "path": pl.String(),  # as sent, with its query
    "host": pl.String(),
    "status": pl.Int16(),
    "request_id": pl.String(),  # X-Request-ID
    "stamp": pl.String(),  # X-Request-Start, as sent
    "queueing_delay": pl.Float64(),  # X-Queueing-Delay of the answer, s
    "service_time": pl.Float64(),  # X-Service-Time of the answer, s
    "worker": pl.String(),  # X-Worker of the answer
}
"""One row per request on a connection that speaks HTTP/1, or per turn of client and server on one that speaks TLS
(a request that waits for 100 Continue makes two turns; HTTP/2 over TLS has none)."""

LEGS = ("client", "backend", "unknown")
"""Which side of the proxy a connection is on."""

VANTAGES = ("server", "client", "both", "unknown")
"""Where a connection was captured: on the machine of one of its ends, of both, or between them (unknown)."""

TIMELINE: dict[str, pl.DataType] = {
    "request_id": pl.String(),
    "joined_by": pl.Enum(("request_id", "tuple", "none")),  # how the log's record was matched; none: not matched
    "log_row": pl.Int64(),  # position in the log's rows; null: not joined
    "client_exchange": pl.Int64(),  # in EXCHANGES; null: that side is not in the capture, or it is ambiguous
    "backend_exchange": pl.Int64(),  # of the last attempt
    "attempts": pl.Int32(),  # exchanges with backends
    "method": pl.String(),
    "path": pl.String(),
    "status": pl.Int16(),
    "client": pl.String(),  # address:port
    "backend": pl.String(),
    # Instants of the client's side. The handshake's are null where the request is not the connection's first.
    "client_syn": WIRE_INSTANT,
    "client_syn_ack": WIRE_INSTANT,
    "client_established": WIRE_INSTANT,
    "request_first": WIRE_INSTANT,
    "request_last": WIRE_INSTANT,
    "response_first": WIRE_INSTANT,
    "response_last": WIRE_INSTANT,
    # Of the backend's side.
    "backend_syn": WIRE_INSTANT,
    "backend_syn_answered": WIRE_INSTANT,
    "backend_syn_ack": WIRE_INSTANT,
    "backend_established": WIRE_INSTANT,
    "backend_ack_taken": WIRE_INSTANT,
    "backend_request_first": WIRE_INSTANT,
    "backend_request_last": WIRE_INSTANT,
    "app_start": WIRE_INSTANT,  # the app's own start by the capturing machine's clock; null: unknown
    "app_end": WIRE_INSTANT,  # app_start + service time
    "backend_response_first": WIRE_INSTANT,
    "backend_response_last": WIRE_INSTANT,
    # Durations, s. Null where the request is not the first of its connection to the backend.
    "syn_dropped": pl.Float64(),  # backend_syn_answered - backend_syn: unanswered SYNs
    "syn_queue": pl.Float64(),  # backend_ack_taken - backend_syn_answered, captured at the backend: in its SYN queue
    "accept_wait_lower": pl.Float64(),  # proved by retransmission: 0, or ack_taken - established
    "accept_wait_upper": pl.Float64(),  # first byte of the answer - established - service time
    "accept_wait": pl.Float64(),  # app_start - established; includes the server's work between accept() and the app
}
"""One row per request, with the data of both sides of the proxy and of the log."""


def seconds_on_wire(earlier: str | pl.Expr, later: str | pl.Expr) -> pl.Expr:
    """Return ``later - earlier`` of two instants (names of columns, or expressions), in seconds."""
    ends = [pl.col(end) if isinstance(end, str) else end for end in (earlier, later)]
    return (ends[1] - ends[0]).dt.total_nanoseconds() / 1e9
