"""What is remembered of connections and exchanges while a capture is read: arrays of records that grow.

A connection has one record, one per direction, and one per exchange: memory goes with these, not with packets. Instants
are ns, and ``NONE`` where there is none. Positions in a byte stream are counted from 2^32 + the first sequence number
seen, in 64 bits: sequence numbers wrap at 2^32 (RFC 9293, section 3.4), positions do not.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

NONE = -(2**63)
ABSENT = -1

UNDECIDED, HTTP, HTTP2, TLS, OTHER = range(5)
"""What is spoken on a connection (``spoken``)."""

HEAD, SIZED, CHUNKED, OPEN, HOLED, OVER = range(6)
"""What the next byte of an HTTP direction belongs to (``mode``): a head, a body of known end, a body in chunks, a body
of unknown end, a head of which a packet is missing, or something that is not HTTP any more. Their order is made use
of: bodies of known end stand together, and so do those states that turns end."""

GET_LIKE, HEAD_LIKE, CONNECT_LIKE = range(3)
"""What a request's method says of the answer (``kind``): a body by its own head, none, or a tunnel."""

SEEN = 4
"""Segments of a direction that a copy is looked for among."""

TEXTS = ("method", "path", "host", "request_id", "stamp", "queueing_delay", "service_time", "worker")
METHOD, PATH, HOST, REQUEST_ID, STAMP, QUEUEING_DELAY, SERVICE_TIME, WORKER = range(8)
"""Values taken from heads, in the order of the columns of ``text``."""

CONNECTION = np.dtype(
    [
        ("low", np.int64),  # address * 2^16 + port of the endpoint for which that is less
        ("high", np.int64),
        ("client", np.int8),  # 0: low, 1: high, ABSENT: not known yet
        ("protocol", np.int8),
        ("kept", np.int8),  # some byte of payload was captured
        ("reset_by", np.int8),
        ("ended", np.int8),
        ("orphan", np.int8),  # the answer that is coming in belongs to no request in the capture
        ("old_tls", np.int8),  # the client has sent handshake records after its hello: TLS 1.2 or older
        ("finished", np.int8),  # the client has sent what ends the handshake of TLS 1.3
        ("offers_http2", np.int8),  # the client's hello of TLS does
        ("tls_http2", np.int8),  # HTTP/2 is spoken inside of TLS
        ("syn_data", np.int8),  # a SYN brought payload: TCP Fast Open
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
        ("spoke", np.int8),  # it has sent a segment that is neither SYN nor RST
        ("mode", np.int8),
        ("isn", np.int64),  # sequence number of the SYN; ABSENT: not seen
        ("next", np.int64),  # position after the last byte seen
        ("acknowledged", np.int64),  # position up to which the other side has acknowledged
        ("fin", np.int64),
        ("data", np.int64),
        ("bytes", np.int64),
        ("retransmissions", np.int32),
        ("zero_windows", np.int32),
        ("gaps", np.int32),  # that were given up
        ("hole", np.int32),  # the first of its holes; ABSENT: none
        ("packets", np.int32),
        ("seen_at", np.int8),
        # HTTP
        ("head_at", np.int64),  # what is collected of a head, in ``Tables.heads``
        ("head_length", np.int32),
        ("head_room", np.int32),
        ("end", np.int64),  # SIZED: position after the body; HOLED: of the missing byte
        ("chunk", np.int64),  # CHUNKED: bytes of the chunk that are to come, or the number read so far
        ("chunk_part", np.int8),
        ("body_at", np.int64),  # position after the last head
        # TLS
        ("record_left", np.int32),  # bytes of the record that are to come
        ("record_length", np.int32),
        ("ticket_length", np.int32),
        ("record_type", np.int8),
        ("record_have", np.int8),  # bytes of its header that have come
        ("record_counts", np.int8),  # it is data
        ("record_lost", np.int8),  # where the next record begins is not known
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
        ("text", np.int64, (len(TEXTS),)),  # where its values begin in ``Tables.texts``; ABSENT: none
        ("text_length", np.int32, (len(TEXTS),)),
    ]
)

HOLE = np.dtype([("start", np.int64), ("end", np.int64), ("next", np.int32)])
"""Payload that is not in the capture so far; the holes of a direction are a list."""

SEGMENT = np.dtype([("time", np.int64), ("numbers", np.int64), ("rest", np.int64), ("ip_id", np.int32)])
"""What two copies of one packet have in common."""

N_CONNECTIONS, N_EXCHANGES, N_HOLES, N_HEADS, N_TEXTS, FREE_HOLE, UPGRADED, ANSWER_ALONE = range(8)
"""Positions in ``Tables.counts``: entries in use of each table, the first hole to use again (ABSENT: none), connections
that went on as another protocol, and answers to no request in the capture."""


class Tables(NamedTuple):
    """All that is remembered of connections.

    Attributes:
        sides: 2 per connection, of ``low`` and of ``high``.
        heads: bytes of heads that are not complete.
        heads_read: the same bytes, as an array that is only read: as what a batch hands out, so that the functions that
            read either are compiled once.
        texts: bytes of the values taken from heads.
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
    """How the connection of a segment is found.

    Attributes:
        slots: connection of a flow, by open addressing (linear probing); its length is a power of two.
        salt: mixed into the place of a flow, so that no capture can be made whose flows meet in one place.
        seen: (2 per connection, SEEN) of SEGMENT.
        servers: whether a port is known to be listened on.
    """

    slots: npt.NDArray[np.int32]
    salt: npt.NDArray[np.uint64]
    seen: npt.NDArray[Any]
    servers: npt.NDArray[np.bool_]


def new_tables() -> Tables:
    """Tables of nothing."""
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


def new_flows(servers: npt.NDArray[np.bool_], salt: int) -> Flows:
    """No flows."""
    slots = np.full(1 << 10, ABSENT, np.int32)
    return Flows(slots, np.array([salt], np.uint64), np.zeros((2 << 8, SEEN), SEGMENT), servers)


def read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same array, not to be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def grown(table: npt.NDArray[Any], need: int) -> npt.NDArray[Any]:
    """A table of half as many entries more than needed that begins like this one; itself if it is long enough."""
    if need <= len(table):
        return table
    larger = np.zeros((need + need // 2, *table.shape[1:]), table.dtype)
    larger[: len(table)] = table
    return larger
