"""Follow TLS records, which separate the handshake from application data (RFC 8446, section 5.1).

A turn begins with the client's first data record after the server's data, and ends with the server's last data record
before the next turn.

The turns of HTTP/2 over TLS are not requests. The client's acknowledgement of the server's settings, a frame of 9 bytes
in a record of its own, identifies HTTP/2 where the client's hello offers it.

In TLS 1.3 the end of the handshake, alerts and session tickets look like data. The client's first such record ends its
handshake (a client with a certificate sends up to three: its first turn then begins too early). Records with the length
of an alert count as alerts. Two short records of equal length before all other records of the server count as tickets;
a single ticket looks like an answer: the first answer then begins too early.
"""
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

from sojourn.analyses.pcap.tracking.heads import begins_with, table
from sojourn.analyses.pcap.tracking.states import ABSENT, NONE
from sojourn.analyses.pcap.tracking.turns import (
    begin_answer,
    begin_exchange,
    is_answered,
    next_unanswered,
    note_answer,
    note_request,
)
from sojourn.model.compilation import compiled_part

HANDSHAKE, DATA = 22, 23
CLIENT_HELLO, SERVER_HELLO = 1, 2
RECORD_LIMIT = (1 << 14) + 2048
HEADER = 5
ALERT_LENGTH = 19
"""An alert in TLS 1.3: 2 bytes, the inner type, and a tag of 16 bytes."""
TICKET_LIMIT = 600
SETTINGS_TAKEN = (25, 26, 33)
"""Lengths of a record of 9 bytes: TLS 1.2 with ChaCha20, TLS 1.3, TLS 1.2 with AES-GCM (RFC 7905, 8446, 5288)."""
OFFER, OFFER_LENGTHS = table((b"\x02h2",))


@compiled_part
def is_record_start(octets, start, stop):
    """Return whether a record may begin here."""
    if stop - start < HEADER:
        return False
    length = octets[start + 3] * 256 + octets[start + 4]
    return (
        20 <= octets[start] <= 23 and octets[start + 1] == 3 and octets[start + 2] <= 4 and 0 < length <= RECORD_LIMIT
    )


@compiled_part
def is_hello(octets, start, stop, which):
    """Return whether a hello of kind ``which`` begins here."""
    return (
        is_record_start(octets, start, stop)
        and octets[start] == HANDSHAKE
        and stop - start > HEADER
        and octets[start + HEADER] == which
    )


@compiled_part
def is_hello_cut(octets, start, stop):
    """Return whether the bytes are an incomplete record header that may belong to a hello."""
    return (
        0 < stop - start <= HEADER
        and octets[start] == HANDSHAKE
        and (stop - start < 2 or octets[start + 1] == 3)
        and (stop - start < 3 or octets[start + 2] <= 4)
    )


@compiled_part
def offers_http2(octets, start, stop):
    """Return whether a hello offers HTTP/2 (ALPN, RFC 7301)."""
    for at in range(start, stop - 2):
        if begins_with(octets, at, at + 3, OFFER, OFFER_LENGTHS) != ABSENT:
            return 1
    return 0


@compiled_part
def begin_record(tables, number, d, time, first):
    """Process a record header: note the handshake's state, and whether the record is data.

    ``first``: the record's first byte; ABSENT: it was not captured with the header.
    """
    connection = tables.connections[number]
    side = tables.sides[2 * number + d]
    from_client = d == connection.client
    side.record_counts = 0
    if side.record_type == HANDSHAKE:
        note_hello(connection, from_client, time, first)
    elif side.record_type != DATA or side.record_length == ALERT_LENGTH:
        return
    elif (
        from_client
        and connection.server_hello != NONE
        and connection.tls_ready == NONE
        and not connection.old_tls
        and not connection.finished
    ):
        connection.finished = 1
    elif from_client:
        if connection.offers_http2 and side.record_length in SETTINGS_TAKEN:
            connection.tls_http2 = 1
        if connection.tls_ready == NONE:
            connection.tls_ready = time
        if is_answered(tables, connection):
            begin_exchange(tables, number, time)
        side.record_counts = 1
    elif connection.server_hello == NONE or (not is_ticket(tables, connection, side) and connection.tls_ready != NONE):
        if next_unanswered(tables, connection) != ABSENT:
            begin_answer(tables, connection)
        side.record_counts = 1


@compiled_part
def note_hello(connection, from_client, time, first):
    """Note the kind of a handshake record by its first byte."""
    if not from_client:
        if connection.server_hello == NONE and (first == SERVER_HELLO or connection.client_hello != NONE):
            connection.server_hello = time
    elif connection.client_hello == NONE and (first == CLIENT_HELLO or connection.server_hello == NONE):
        connection.client_hello = time
    elif first != CLIENT_HELLO:  # TLS 1.3 may ask for another hello
        connection.old_tls = 1


@compiled_part
def is_ticket(tables, connection, side):
    """Return whether a server record is short and as long as the one before: both count as session tickets."""
    if not connection.finished or side.tickets > 1 or connection.exchanges > 1:
        return False
    side.tickets += 1
    if side.tickets == 1:
        side.ticket_length = side.record_length
        return False
    if side.record_length != side.ticket_length or side.record_length > TICKET_LIMIT:
        return False
    if connection.last_answered != ABSENT:
        exchange = tables.exchanges[connection.last_answered]
        exchange.response_first = exchange.response_last = NONE
        exchange.response_bytes = 0
    return True


@compiled_part
def note(tables, connection, from_client, time, size):
    """Add bytes of data to the current request or answer."""
    if from_client:
        note_request(tables, connection, time, size)
    else:
        note_answer(tables, connection, time, size)


@compiled_part
def take_records(tables, number, d, time, octets, at, captured, size):
    """Process ``size`` new bytes of side ``d``; ``captured`` of them are in ``octets`` from ``at`` on."""
    connection = tables.connections[number]
    side = tables.sides[2 * number + d]
    from_client = d == connection.client
    if side.record_lost and is_record_start(octets, at, at + captured):
        side.record_lost, side.record_left, side.record_have = 0, 0, 0
    if from_client and connection.server_hello == NONE and not connection.offers_http2:
        connection.offers_http2 = offers_http2(octets, at, at + captured)
    done = 0
    while done < size and not side.record_lost:
        if side.record_left > 0:
            step = min(side.record_left, size - done)
            side.record_left -= step
            done += step
            if side.record_counts:
                note(tables, connection, from_client, time, step)
            continue
        if done >= captured:
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
            begin_record(tables, number, d, time, octets[at + done] if done < captured else ABSENT)
            if side.record_counts:
                note(tables, connection, from_client, time, HEADER)
    if side.record_lost and connection.tls_ready != NONE and done < size:
        note(tables, connection, from_client, time, size - done)


@compiled_part
def skip_records(side, size):
    """Skip ``size`` missing bytes of a direction."""
    if size <= side.record_left:
        side.record_left -= size
    else:
        side.record_lost = 1
