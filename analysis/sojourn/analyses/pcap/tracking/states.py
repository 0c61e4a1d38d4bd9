"""The state of connections and exchanges while a capture is read, in arrays of records that grow.

A connection has one record, one per direction and one per exchange: memory grows with these, not with packets. Instants
are in ns, ``NONE`` where unknown; other fields are ``ABSENT``. Positions in a byte stream start at 2^32 + the first
sequence number, in 64 bits: sequence numbers wrap at 2^32 (RFC 9293, section 3.4), positions do not.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

NONE = -(2**63)
ABSENT = -1

UNDECIDED, HTTP, HTTP2, TLS, OTHER = range(5)
"""The protocol of a connection (``protocol``)."""

HEAD, SIZED, CHUNKED, OPEN, HOLED, OVER = range(6)
"""What the next byte of an HTTP direction belongs to (``mode``): a head, a body of known length, a chunked body, a
body of unknown end, a head with a missing packet, or another protocol. Comparisons use their order: SIZED to
CHUNKED are bodies of known end, OPEN to HOLED are the states that a turn ends."""

GET_LIKE, HEAD_LIKE, CONNECT_LIKE = range(3)
"""The answer that a request's method implies (``kind``): a body as its head states, no body, or a tunnel."""

RECENT = 4
"""The number of recent segments of a direction that a copy is compared with."""

TEXTS = ("method", "path", "host", "request_id", "stamp", "queueing_delay", "service_time", "worker")
METHOD, PATH, HOST, REQUEST_ID, STAMP, QUEUEING_DELAY, SERVICE_TIME, WORKER = range(8)
"""Values read from heads, in the order of the columns of ``text``."""

CONNECTION = np.dtype(
    [
        ("low", np.int64),  # address * 2^16 + port of the endpoint for which that is less
        ("high", np.int64),
        ("client", np.int8),  # 0: low, 1: high, ABSENT: unknown
        ("protocol", np.int8),
        ("has_payload", np.int8),  # 1: payload was captured
        ("reset_by", np.int8),
        ("ended", np.int8),
        ("orphan", np.int8),  # the current answer belongs to no request in the capture
        ("old_tls", np.int8),  # the client has sent handshake records after its hello: TLS 1.2 or older
        ("finished", np.int8),  # the client has ended the handshake of TLS 1.3
        ("offers_http2", np.int8),  # the client's TLS hello does
        ("tls_http2", np.int8),  # the protocol inside TLS is HTTP/2
        ("syn_data", np.int8),  # a SYN carried payload: TCP Fast Open
        ("first", np.int64),
        ("last", np.int64),
        ("syn", np.int64),
        ("syn_answered", np.int64),
        ("syn_last", np.int64),
        ("syn_ack", np.int64),
        ("syn_ack_last", np.int64),
        ("established", np.int64),
        ("ack_taken", np.int64),
        ("reset", np.int64),
        ("client_hello", np.int64),
        ("server_hello", np.int64),
        ("tls_ready", np.int64),
        ("syns", np.int32),
        ("syn_acks", np.int32),
        ("acks_dropped", np.int32),
        ("acks_doubtful", np.int32),
        ("copies", np.int32),
        ("packets", np.int32),
        ("exchanges", np.int32),
        ("last_request", np.int64),  # exchange of the last request
        ("last_answered", np.int64),  # the last exchange whose answer has begun
        ("first_request", np.int64),
    ]
)

SIDE = np.dtype(
    [
        ("begun", np.int8),  # ``next`` is known
        ("sent_data", np.int8),  # sent a segment that is neither SYN nor RST
        ("mode", np.int8),
        ("isn", np.int64),  # sequence number of the SYN; ABSENT: not captured
        ("next", np.int64),  # position after the last captured byte
        ("acknowledged", np.int64),  # position up to which the other side has acknowledged
        ("fin", np.int64),
        ("data", np.int64),
        ("bytes", np.int64),
        ("retransmissions", np.int32),
        ("zero_windows", np.int32),
        ("gaps", np.int32),  # holes beyond LIMIT
        ("hole", np.int32),  # the first hole; ABSENT: none
        ("packets", np.int32),
        ("recent_at", np.int8),
        # HTTP
        ("head_at", np.int64),  # start of the incomplete head in ``Tables.heads``
        ("head_length", np.int32),
        ("head_room", np.int32),
        ("end", np.int64),  # SIZED: position after the body; HOLED: of the missing byte
        ("chunk", np.int64),  # CHUNKED: bytes left of the chunk, or the size read so far
        ("chunk_part", np.int8),
        ("body_at", np.int64),  # position after the last head
        # TLS
        ("record_left", np.int32),  # bytes left of the record
        ("record_length", np.int32),
        ("ticket_length", np.int32),
        ("record_type", np.int8),
        ("record_have", np.int8),  # bytes of its header received
        ("record_counts", np.int8),  # 1: application data
        ("record_lost", np.int8),  # 1: the start of the next record is unknown
        ("tickets", np.int8),  # records that may be session tickets
    ]
)

EXCHANGE = np.dtype(
    [
        ("connection", np.int64),
        ("following", np.int64),  # the next exchange of the connection
        ("request_first", np.int64),
        ("request_last", np.int64),
        ("response_first", np.int64),
        ("response_last", np.int64),
        ("request_bytes", np.int64),
        ("response_bytes", np.int64),
        ("number", np.int32),
        ("retransmissions", np.int32),
        ("status", np.int16),
        ("kind", np.int8),
        ("text", np.int64, (len(TEXTS),)),  # start of each value in ``Tables.texts``; ABSENT: none
        ("text_length", np.int32, (len(TEXTS),)),
    ]
)

HOLE = np.dtype([("start", np.int64), ("end", np.int64), ("next", np.int32)])
"""Payload that is missing so far; the holes of a direction form a linked list."""

SEGMENT = np.dtype([("time", np.int64), ("numbers", np.int64), ("rest", np.int64), ("ip_id", np.int32)])
"""The fields that two copies of one packet share."""

GROWTH = 4
"""A table that is full becomes this many times as long: entries that were never written take no memory, copies do."""

N_CONNECTIONS, N_EXCHANGES, N_HOLES, N_HEADS, N_TEXTS, FREE_HOLE, UPGRADED, ANSWER_ALONE = range(8)
"""Positions in ``Tables.counts``: entries in use of each table, the first free hole (ABSENT: none), connections
upgraded to another protocol, and answers without a request in the capture."""


class Tables(NamedTuple):
    """The state of all connections.

    Attributes:
        connections: records of CONNECTION.
        sides: records of SIDE, 2 per connection: of ``low`` and of ``high``.
        exchanges: records of EXCHANGE.
        holes: records of HOLE.
        heads: bytes of incomplete heads.
        heads_read: a read-only view of ``heads``; a batch's buffer is read-only, too, so the functions that read both
            are compiled once.
        texts: bytes of the values read from heads.
        counts: integers at the positions ``N_CONNECTIONS`` to ``ANSWER_ALONE``.
    """

    connections: npt.NDArray[Any]
    sides: npt.NDArray[Any]
    exchanges: npt.NDArray[Any]
    holes: npt.NDArray[Any]
    heads: npt.NDArray[np.uint8]
    heads_read: npt.NDArray[np.uint8]
    texts: npt.NDArray[np.uint8]
    counts: npt.NDArray[np.int64]


class Flows(NamedTuple):
    """The index from flows to connections.

    Attributes:
        slots: connection of a flow, by open addressing (linear probing); its length is a power of two.
        salt: mixed into the hash of a flow, so that a crafted capture cannot force collisions.
        recent: shape (2 per connection, RECENT), records of SEGMENT.
        servers: shape (65536,), whether a port is known to be a server's.
        servers_complete: shape (1,), whether ``servers`` is complete.
    """

    slots: npt.NDArray[np.int32]
    salt: npt.NDArray[np.uint64]
    recent: npt.NDArray[Any]
    servers: npt.NDArray[np.bool_]
    servers_complete: npt.NDArray[np.bool_]


def new_tables() -> Tables:
    """Return empty tables."""
    counts = np.zeros(8, np.int64)
    counts[FREE_HOLE] = ABSENT
    heads = np.zeros(1 << 20, np.uint8)
    return Tables(
        connections=np.zeros(1 << 8, CONNECTION),
        sides=np.zeros(2 << 8, SIDE),
        exchanges=np.zeros(1 << 8, EXCHANGE),
        holes=np.zeros(1 << 8, HOLE),
        heads=heads,
        heads_read=read_only(heads),
        texts=np.zeros(1 << 18, np.uint8),
        counts=counts,
    )


def new_flows(salt: int) -> Flows:
    """Return an empty index; the ports of servers are not known yet."""
    slots, recent = np.full(1 << 10, ABSENT, np.int32), np.zeros((2 << 8, RECENT), SEGMENT)
    return Flows(slots, np.array([salt], np.uint64), recent, np.zeros(1 << 16, np.bool_), np.zeros(1, np.bool_))


def read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a read-only view of an array."""
    view = array.view()
    view.flags.writeable = False
    return view


def grown(table: npt.NDArray[Any], need: int) -> npt.NDArray[Any]:
    """Return a table with at least ``need`` entries: the same, or a copy ``GROWTH`` times as long as needed."""
    if need <= len(table):
        return table
    larger = np.zeros((GROWTH * need, *table.shape[1:]), table.dtype)
    # As bytes: numpy copies records field by field.
    larger.reshape(-1).view(np.uint8)[: table.nbytes] = table.reshape(-1).view(np.uint8)
    return larger
