"""Detect a connection's protocol from the first bytes of either side, and dispatch its payload."""
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

from sojourn.analyses.pcap.tracking.heads import (
    CR,
    LF,
    PREFACE,
    PREFACE_LENGTHS,
    begins_with,
    is_answer_start,
    is_other_protocol,
    is_request_start,
    is_usual_request,
    line_end,
    table,
)
from sojourn.analyses.pcap.tracking.messages import fill, skip, take_answer, take_request
from sojourn.analyses.pcap.tracking.states import ABSENT, HTTP, HTTP2, OTHER, TLS, UNDECIDED
from sojourn.analyses.pcap.tracking.tls import (
    CLIENT_HELLO,
    SERVER_HELLO,
    is_hello,
    is_hello_cut,
    is_record_start,
    skip_records,
    take_records,
)
from sojourn.model.compilation import compiled_part

BASE = 1 << 32

RELAYED, RELAYED_LENGTHS = table((b"PROXY ", b"\r\n\r\n\0\r\nQUIT\n"))
RELAYED_LIMIT = 107


@compiled_part
def is_at_start(side, position):
    """Return whether a position is that of a direction's first byte."""
    return side.isn != ABSENT and position == BASE + side.isn + 1


@compiled_part
def proxy_protocol_length(octets, start, stop):
    """Return the length of a PROXY protocol header (versions 1 and 2); 0: there is none."""
    if begins_with(octets, start, stop, RELAYED, RELAYED_LENGTHS) == 0 and stop - start > RELAYED_LENGTHS[0]:
        end = line_end(octets, start, min(stop, start + RELAYED_LIMIT))
        return end + 1 - start if end < stop and octets[end] == LF else 0
    if begins_with(octets, start, stop, RELAYED, RELAYED_LENGTHS) == 1 and stop - start >= 16:
        return 16 + octets[start + 14] * 256 + octets[start + 15]
    return 0


@compiled_part
def decide(tables, number, d, octets, start, stop, at_start):
    """Set the protocol, and the client where it is unknown, as far as these bytes show."""
    connection = tables.connections[number]
    while start < stop and (octets[start] == CR or octets[start] == LF):
        start += 1
    if start == stop:
        return
    client, server = d, 1 - d
    if connection.client != server:
        if begins_with(octets, start, stop, PREFACE, PREFACE_LENGTHS) != ABSENT and stop - start >= 4:
            connection.protocol, connection.client = HTTP2, client
        elif is_usual_request(octets, start, stop) or (at_start and is_request_start(octets, start, stop)):
            connection.protocol, connection.client = OTHER if is_other_protocol(octets, start, stop) else HTTP, client
        elif is_hello(octets, start, stop, CLIENT_HELLO) or (at_start and is_hello_cut(octets, start, stop)):
            connection.protocol, connection.client = TLS, client
    if connection.protocol == UNDECIDED and connection.client != client:
        if is_answer_start(octets, start, stop) and stop - start >= 5:
            connection.protocol, connection.client = HTTP, server
        elif is_hello(octets, start, stop, SERVER_HELLO):
            connection.protocol, connection.client = TLS, server
    if connection.protocol == UNDECIDED:
        if is_record_start(octets, start, stop) and connection.client != ABSENT and octets[start + 1] == 3:
            connection.protocol = TLS
        elif at_start:
            connection.protocol = OTHER


@compiled_part
def take_payload(tables, number, d, time, buffer, at, captured, size, position):
    """Process new payload of side ``d``: ``size`` bytes from ``position`` on, ``captured`` of them in ``buffer``."""
    connection = tables.connections[number]
    if captured > 0:
        connection.has_payload = 1
        if connection.protocol == UNDECIDED:
            at_start = is_at_start(tables.sides[2 * number + d], position)
            before = proxy_protocol_length(buffer, at, at + captured) if at_start and connection.client == d else 0
            if before > 0:
                at, captured, size, position = at + before, captured - before, size - before, position + before
                if captured <= 0:
                    return
            decide(tables, number, d, buffer, at, at + captured, at_start)
    if connection.protocol == HTTP:
        if d == connection.client:
            take_request(tables, number, d, time, buffer, at, captured, size, position)
        else:
            take_answer(tables, number, d, time, buffer, at, captured, size, position)
    elif connection.protocol == TLS:
        take_records(tables, number, d, time, buffer, at, captured, size)


@compiled_part
def miss_payload(tables, number, d, time, start, stop):
    """Skip the missing payload of side ``d`` from ``start`` to ``stop``; payload after it was captured."""
    protocol = tables.connections[number].protocol
    if protocol == HTTP:
        skip(tables, number, d, time, start, stop)
    elif protocol == TLS:
        skip_records(tables.sides[2 * number + d], stop - start)


@compiled_part
def fill_payload(tables, number, d, time, buffer, at, captured, size, position, missing):
    """Process late payload of side ``d``; ``missing``: the first position that is still missing (ABSENT: none)."""
    connection = tables.connections[number]
    side = tables.sides[2 * number + d]
    if connection.protocol == UNDECIDED and captured > 0:
        decide(tables, number, d, buffer, at, at + captured, is_at_start(side, position))
        if connection.protocol == HTTP and d == connection.client:  # the first packet of the first request
            skip(tables, number, d, side.data, position, side.next)
    if connection.protocol == HTTP:
        fill(tables, number, d, time, buffer, at, captured, size, position, missing)
