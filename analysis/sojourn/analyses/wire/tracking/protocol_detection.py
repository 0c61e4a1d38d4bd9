"""What is spoken on a connection, told by the first bytes of either side, and who reads the payload then."""
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

from sojourn.analyses.wire.tracking.heads import (
    CR,
    LF,
    PREFACE,
    PREFACE_LENGTHS,
    begins_with,
    is_answer_start,
    is_known_request,
    is_other_protocol,
    is_request_start,
    line_end,
    table,
)
from sojourn.analyses.wire.tracking.messages import fill, skip, take_answer, take_request
from sojourn.analyses.wire.tracking.states import ABSENT, HTTP, HTTP2, OTHER, TLS, UNDECIDED
from sojourn.analyses.wire.tracking.tls import (
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
    """Whether a position is that of a direction's first byte."""
    return side.isn != ABSENT and position == BASE + side.isn + 1


@compiled_part
def relayed(octets, start, stop):
    """Length of the header with which a balancer names its own client first (PROXY protocol, 1 and 2); 0: none."""
    if begins_with(octets, start, stop, RELAYED, RELAYED_LENGTHS) == 0 and stop - start > RELAYED_LENGTHS[0]:
        end = line_end(octets, start, min(stop, start + RELAYED_LIMIT))
        return end + 1 - start if end < stop and octets[end] == LF else 0
    if begins_with(octets, start, stop, RELAYED, RELAYED_LENGTHS) == 1 and stop - start >= 16:
        return 16 + octets[start + 14] * 256 + octets[start + 15]
    return 0


@compiled_part
def decide(tables, number, d, octets, start, stop, at_start):
    """Settle what is spoken, and who the client is if that is not known, as far as these bytes tell."""
    one = tables.connections[number]
    while start < stop and (octets[start] == CR or octets[start] == LF):
        start += 1
    if start == stop:
        return
    client, server = d, 1 - d
    if one.client != server:
        if begins_with(octets, start, stop, PREFACE, PREFACE_LENGTHS) != ABSENT and stop - start >= 4:
            one.protocol, one.client = HTTP2, client
        elif is_known_request(octets, start, stop) or (at_start and is_request_start(octets, start, stop)):
            one.protocol, one.client = OTHER if is_other_protocol(octets, start, stop) else HTTP, client
        elif is_hello(octets, start, stop, CLIENT_HELLO) or (at_start and is_hello_cut(octets, start, stop)):
            one.protocol, one.client = TLS, client
    if one.protocol == UNDECIDED and one.client != client:
        if is_answer_start(octets, start, stop) and stop - start >= 5:
            one.protocol, one.client = HTTP, server
        elif is_hello(octets, start, stop, SERVER_HELLO):
            one.protocol, one.client = TLS, server
    if one.protocol == UNDECIDED:
        if is_record_start(octets, start, stop) and one.client != ABSENT and octets[start + 1] == 3:
            one.protocol = TLS
        elif at_start:
            one.protocol = OTHER


@compiled_part
def take_payload(tables, number, d, time, buffer, at, kept, size, position):
    """New payload of side ``d``: ``size`` bytes from ``position`` on, of which ``kept`` are in ``buffer``."""
    one = tables.connections[number]
    if kept > 0:
        one.kept = 1
        if one.protocol == UNDECIDED:
            at_start = is_at_start(tables.sides[2 * number + d], position)
            before = relayed(buffer, at, at + kept) if at_start and one.client == d else 0
            if before > 0:
                at, kept, size, position = at + before, kept - before, size - before, position + before
                if kept <= 0:
                    return
            decide(tables, number, d, buffer, at, at + kept, at_start)
    if one.protocol == HTTP:
        if d == one.client:
            take_request(tables, number, d, time, buffer, at, kept, size, position)
        else:
            take_answer(tables, number, d, time, buffer, at, kept, size, position)
    elif one.protocol == TLS:
        take_records(tables, number, d, time, buffer, at, kept, size)


@compiled_part
def miss_payload(tables, number, d, time, start, stop):
    """The payload of side ``d`` from ``start`` up to ``stop`` is missing, while there is some after it."""
    protocol = tables.connections[number].protocol
    if protocol == HTTP:
        skip(tables, number, d, time, start, stop)
    elif protocol == TLS:
        skip_records(tables.sides[2 * number + d], stop - start)


@compiled_part
def fill_payload(tables, number, d, time, buffer, at, kept, size, position, missing):
    """Payload of side ``d`` that was missing; ``missing``: the first position that is missing still (ABSENT: none)."""
    one = tables.connections[number]
    side = tables.sides[2 * number + d]
    if one.protocol == UNDECIDED and kept > 0:
        decide(tables, number, d, buffer, at, at + kept, is_at_start(side, position))
        if one.protocol == HTTP and d == one.client:  # the first packet of the first request
            skip(tables, number, d, side.data, position, side.next)
    if one.protocol == HTTP:
        fill(tables, number, d, time, buffer, at, kept, size, position, missing)
