"""TLS on a connection: its records tell the handshake from data, and nothing more (RFC 8446, section 5.1).

A turn begins with the client's first record of data after the server's, and ends with the server's last before that.

HTTP/2 inside of TLS has no turns that are requests. It is known by the client's answer to the server's settings, a
frame of 9 bytes in a record of its own, where the client's hello offers HTTP/2.

In TLS 1.3 what ends the handshake, alerts and session tickets look like data. The client's first such record is what
ends its handshake (a client that shows a certificate sends up to three: its first turn then begins too early). Records
of the length of an alert are alerts. Two short records of one length before all other of the server's are tickets; a
single one is not told from an answer, which then seems to begin too early, on the first turn only.
"""
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

from sojourn.analyses.wire.tracking.heads import begins_with, table
from sojourn.analyses.wire.tracking.states import ABSENT, NONE
from sojourn.analyses.wire.tracking.turns import (
    awaited,
    begin_answer,
    begin_exchange,
    is_answered,
    note_answer,
    note_request,
)
from sojourn.model.compilation import compiled_part

HANDSHAKE, DATA = 22, 23
CLIENT_HELLO, SERVER_HELLO = 1, 2
RECORD_LIMIT = (1 << 14) + 2048
HEADER = 5
ALERT_LENGTH = 19
"""Of an alert in TLS 1.3: 2 bytes, the type within, and a tag of 16."""
TICKET_LIMIT = 600
SETTINGS_TAKEN = (25, 26, 33)
"""Lengths of a record with 9 bytes: TLS 1.2 with ChaCha20, TLS 1.3, TLS 1.2 with AES-GCM (RFC 7905, 8446, 5288)."""
OFFER, OFFER_LENGTHS = table((b"\x02h2",))


@compiled_part
def is_record_start(octets, start, stop):
    """Whether a record may begin here."""
    if stop - start < HEADER:
        return False
    length = octets[start + 3] * 256 + octets[start + 4]
    return (
        20 <= octets[start] <= 23 and octets[start + 1] == 3 and octets[start + 2] <= 4 and 0 < length <= RECORD_LIMIT
    )


@compiled_part
def is_hello(octets, start, stop, which):
    """Whether a hello of that kind begins here."""
    return (
        is_record_start(octets, start, stop)
        and octets[start] == HANDSHAKE
        and stop - start > HEADER
        and octets[start + HEADER] == which
    )


@compiled_part
def is_hello_cut(octets, start, stop):
    """Whether less than a record's header stands here, and it may be that of a hello."""
    return (
        0 < stop - start <= HEADER
        and octets[start] == HANDSHAKE
        and (stop - start < 2 or octets[start + 1] == 3)
        and (stop - start < 3 or octets[start + 2] <= 4)
    )


@compiled_part
def offers_http2(octets, start, stop):
    """Whether HTTP/2 is among the names of protocols in a hello (ALPN, RFC 7301)."""
    for at in range(start, stop - 2):
        if begins_with(octets, at, at + 3, OFFER, OFFER_LENGTHS) != ABSENT:
            return 1
    return 0


@compiled_part
def begin_record(tables, number, d, time, first):
    """The header of a record has come: whether it is data, and what it says of the handshake.

    Args:
        tables, number, d, time: as everywhere.
        first: the record's first byte; ABSENT: it was not captured in one piece with the header.
    """
    one = tables.connections[number]
    side = tables.sides[2 * number + d]
    asks = d == one.client
    side.record_counts = 0
    if side.record_type == HANDSHAKE:
        note_hello(one, asks, time, first)
    elif side.record_type != DATA or side.record_length == ALERT_LENGTH:
        return
    elif asks and one.server_hello != NONE and one.tls_ready == NONE and not one.old_tls and not one.finished:
        one.finished = 1
    elif asks:
        if one.offers_http2 and side.record_length in SETTINGS_TAKEN:
            one.tls_http2 = 1
        if one.tls_ready == NONE:
            one.tls_ready = time
        if is_answered(tables, one):
            begin_exchange(tables, number, time)
        side.record_counts = 1
    elif one.server_hello == NONE or (not is_ticket(tables, one, side) and one.tls_ready != NONE):
        if awaited(tables, one) != ABSENT:
            begin_answer(tables, one)
        side.record_counts = 1


@compiled_part
def note_hello(one, asks, time, first):
    """The first byte of a handshake record."""
    if not asks:
        if one.server_hello == NONE and (first == SERVER_HELLO or one.client_hello != NONE):
            one.server_hello = time
    elif one.client_hello == NONE and (first == CLIENT_HELLO or one.server_hello == NONE):
        one.client_hello = time
    elif first != CLIENT_HELLO:  # TLS 1.3 may ask for another hello
        one.old_tls = 1


@compiled_part
def is_ticket(tables, one, side):
    """Whether a record of the server's is the second of one length, and short: it and the first seem to be tickets."""
    if not one.finished or side.tickets > 1 or one.exchanges > 1:
        return False
    side.tickets += 1
    if side.tickets == 1:
        side.ticket_length = side.record_length
        return False
    if side.record_length != side.ticket_length or side.record_length > TICKET_LIMIT:
        return False
    if one.last_answered != ABSENT:
        exchange = tables.exchanges[one.last_answered]
        exchange.response_first = exchange.response_last = NONE
        exchange.response_bytes = 0
    return True


@compiled_part
def note(tables, one, asks, time, size):
    """Bytes of data."""
    if asks:
        note_request(tables, one, time, size)
    else:
        note_answer(tables, one, time, size)


@compiled_part
def take_records(tables, number, d, time, octets, at, kept, size):
    """New bytes of side ``d``: ``size``, of which ``kept`` stand in ``octets`` from ``at`` on."""
    one = tables.connections[number]
    side = tables.sides[2 * number + d]
    asks = d == one.client
    if side.record_lost and is_record_start(octets, at, at + kept):
        side.record_lost, side.record_left, side.record_have = 0, 0, 0
    if asks and one.server_hello == NONE and not one.offers_http2:
        one.offers_http2 = offers_http2(octets, at, at + kept)
    done = 0
    while done < size and not side.record_lost:
        if side.record_left > 0:
            step = min(side.record_left, size - done)
            side.record_left -= step
            done += step
            if side.record_counts:
                note(tables, one, asks, time, step)
            continue
        if done >= kept:
            side.record_lost = 1
            break
        octet = octets[at + done]
        done += 1
        if side.record_have == 0:
            side.record_type = octet
            side.record_lost = not 20 <= octet <= 23
        elif side.record_have == 3:
            side.record_length = octet * 256
        elif side.record_have == 4:
            side.record_length += octet
            side.record_lost = side.record_length > RECORD_LIMIT
        side.record_have += 1
        if side.record_have == HEADER and not side.record_lost:
            side.record_have, side.record_left = 0, side.record_length
            begin_record(tables, number, d, time, octets[at + done] if done < kept else ABSENT)
            if side.record_counts:
                note(tables, one, asks, time, HEADER)
    if side.record_lost and one.tls_ready != NONE and done < size:
        note(tables, one, asks, time, size - done)


@compiled_part
def skip_records(side, size):
    """So many bytes of a direction are missing."""
    if size <= side.record_left:
        side.record_left -= size
    else:
        side.record_lost = 1
