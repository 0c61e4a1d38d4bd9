"""Apply a segment to its connection: the handshake, the payload, the end (RFC 9293)."""
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

from sojourn.analyses.pcap.tracking.protocol_detection import fill_payload, miss_payload, take_payload
from sojourn.analyses.pcap.tracking.reassembly_gaps import close_holes, first_missing, open_hole
from sojourn.analyses.pcap.tracking.states import ABSENT, NONE, RECENT
from sojourn.model.compilation import compiled_part

FIN, SYN, RST, ACK = 0x01, 0x02, 0x04, 0x10
BASE = 1 << 32
FAR = 1 << 26
"""Bytes beyond any window: payload this far from the expected position belongs to another connection."""

COPY_TIME, COPY_TIME_UNNUMBERED = 1_000_000, 200_000
"""ns between copies of one packet; less where the packet has no IP id, which distinguishes it from a retransmission."""

COPY_TIME_SYN = 100_000_000
"""The same for SYN and SYN-ACK, whose retransmission timer starts at one second (RFC 6298)."""

TIMER = 200_000_000
"""ns after which the server's timer caused a repeated SYN-ACK; an earlier one has another cause."""

MARGIN = 10_000_000
"""ns by which a packet must precede the timer to rule out that they crossed."""


@compiled_part
def position_of(near, seq):
    """Return the position of a sequence number that is nearest to position ``near``."""
    ahead = (seq - near) & 0xFFFFFFFF
    return near + (ahead if ahead < 1 << 31 else ahead - BASE)


@compiled_part
def is_copy(flows, row, packets, time, numbers, rest, ip_id):
    """Return whether this packet is a copy of a recent packet of its direction (captured on several interfaces)."""
    limit = COPY_TIME_SYN if rest & SYN else COPY_TIME if ip_id != 0 else COPY_TIME_UNNUMBERED
    for k in range(min(packets, RECENT)):
        entry = flows.recent[row, k]
        if entry.numbers == numbers and entry.rest == rest and entry.ip_id == ip_id and abs(time - entry.time) <= limit:
            return True
    return False


@compiled_part
def remember(tables, flows, row, time, numbers, rest, ip_id):
    """Store a packet to detect its copies."""
    side = tables.sides[row]
    entry = flows.recent[row, side.recent_at]
    entry.time, entry.numbers, entry.rest, entry.ip_id = time, numbers, rest, ip_id
    side.recent_at = (side.recent_at + 1) % RECENT


@compiled_part
def is_answer_of_another(connection, sender, other, seq, ack):
    """Return whether a SYN-ACK belongs to a new connection."""
    if sender.isn == seq:
        return False
    # With SYN cookies a server answers a repeated SYN with another sequence number; a SYN may carry payload.
    answers = other.isn != ABSENT and BASE + other.isn < position_of(other.next, ack) <= other.next
    return not answers and (connection.ended == 1 or sender.begun == 1 or other.isn != ABSENT)


@compiled_part
def is_syn_of_another(connection, sender, other, seq):
    """Return whether a SYN belongs to a new connection."""
    if sender.isn == seq:  # repeated, even after a reset: some systems retry then
        return connection.ended == 1 and connection.reset == NONE
    at_once = connection.syn != NONE and connection.syn_ack == NONE and not sender.begun  # simultaneous open
    return connection.ended == 1 or sender.isn != ABSENT or (not at_once and (sender.begun == 1 or other.begun == 1))


@compiled_part
def is_another(tables, number, d, seq, ack, flags, length):
    """Return whether a segment belongs to a new connection that reuses the pair of address and port."""
    connection = tables.connections[number]
    sender, other = tables.sides[2 * number + d], tables.sides[2 * number + 1 - d]
    if flags & SYN:
        return (
            is_answer_of_another(connection, sender, other, seq, ack)
            if flags & ACK
            else is_syn_of_another(connection, sender, other, seq)
        )
    if connection.ended and length > 0 and sender.begun and not flags & RST:
        ahead = position_of(sender.next, seq) - sender.next
        return ahead < -FAR or ahead > FAR or (sender.fin != NONE and ahead > 0)
    return False


@compiled_part
def take_syn(tables, number, d, time, seq, length):
    """Process the client's SYN."""
    connection = tables.connections[number]
    side = tables.sides[2 * number + d]
    if side.isn != seq:
        side.isn, side.begun, side.next = seq, 1, BASE + seq + 1
    if connection.syn != NONE and connection.client != d:  # simultaneous open: the other side was first
        return
    if connection.reset != NONE:
        connection.reset, connection.reset_by, connection.ended = NONE, ABSENT, 0
    connection.client = d
    connection.syns += 1
    connection.syn_last = time
    if length > 0:
        connection.syn_data = 1
    if connection.syn == NONE:
        connection.syn = time
        connection.syn_answered = time
    elif connection.syn_ack == NONE:
        connection.syn_answered = time


@compiled_part
def proves_dropped_ack(connection, client, time):
    """Return whether a SYN-ACK repeated after the client's ACK proves that the capturing server dropped that ACK.

    The server's timer caused it, and the ACK and a request had arrived well before: a server may ignore a bare ACK on
    purpose (TCP_DEFER_ACCEPT). It does not answer a repeated SYN, and no SYN carried payload (TCP Fast Open).
    """
    return (
        time - connection.syn_ack_last >= TIMER
        and time - connection.established >= MARGIN
        and client.data != NONE
        and time - client.data >= MARGIN
        and connection.syn_last <= connection.established
        and not connection.syn_data
    )


@compiled_part
def take_syn_ack(tables, number, d, time, seq, ack):
    """Process a SYN-ACK: the connection is in the SYN queue; a repeated one may mean that the ACK was dropped."""
    connection = tables.connections[number]
    side, other = tables.sides[2 * number + d], tables.sides[2 * number + 1 - d]
    if connection.syn != NONE and connection.client == d:  # simultaneous open
        return
    connection.client = 1 - d
    connection.syn_acks += 1
    if connection.syn_ack == NONE:
        connection.syn_ack = time
    if (
        connection.established != NONE and not side.sent_data
    ):  # a server that sent data has the ACK: this SYN-ACK is late
        if proves_dropped_ack(connection, other, time):
            connection.acks_dropped += 1
            connection.ack_taken = NONE
        else:
            connection.acks_doubtful += 1
    connection.syn_ack_last = time
    if side.isn != seq:
        side.isn, side.begun, side.next = seq, 1, BASE + seq + 1
    if not other.begun:  # its SYN is missing or comes later
        other.isn, other.begun = (ack - 1) & 0xFFFFFFFF, 1
        other.next = BASE + other.isn + 1


@compiled_part
def take_ack(connection, other, d, time, ack):
    """Process an acknowledgement."""
    if d == connection.client and connection.syn_ack != NONE:
        if connection.established == NONE:
            connection.established = time
        if connection.ack_taken == NONE:
            connection.ack_taken = time
    if other.begun:
        other.acknowledged = max(other.acknowledged, position_of(other.next, ack))


@compiled_part
def take_data(tables, number, d, time, seq, buffer, at, captured, length):
    """Process payload: new, late, or repeated."""
    connection = tables.connections[number]
    row = 2 * number + d
    side = tables.sides[row]
    if not side.begun:
        side.begun, side.next = 1, BASE + seq
    if side.data == NONE:
        side.data = time
    start = position_of(side.next, seq)
    end = start + length
    if start > side.next:
        open_hole(tables, row, side.next, start)
        miss_payload(tables, number, d, time, side.next, start)
        side.next = start
    fresh = min(end - side.next, length)
    filled = close_holes(tables, row, start, min(end, side.next)) if start < side.next else 0
    side.bytes += filled + max(fresh, 0)
    if filled > 0:
        missing = first_missing(tables, row)
        fill_payload(tables, number, d, time, buffer, at, captured, length - max(fresh, 0), start, missing)
    if fresh > 0:
        old = length - fresh
        take_payload(tables, number, d, time, buffer, at + old, max(captured - old, 0), fresh, side.next)
        side.next = end
    elif filled == 0 and not (length == 1 and end == side.next):  # a keep-alive probe
        side.retransmissions += 1
        if connection.last_request != ABSENT:
            tables.exchanges[connection.last_request].retransmissions += 1


@compiled_part
def take_segment(tables, number, d, time, seq, ack, flags, window, length, buffer, at, captured):
    """Process a segment that side ``d`` of a connection sent."""
    connection = tables.connections[number]
    side, other = tables.sides[2 * number + d], tables.sides[2 * number + 1 - d]
    connection.packets += 1
    side.packets += 1
    connection.last = max(connection.last, time)
    if window == 0 and not flags & (SYN | RST):
        side.zero_windows += 1
    if flags & RST:
        if connection.reset == NONE:
            connection.reset, connection.reset_by = time, d
        connection.ended = 1
        return
    if flags & SYN:
        if flags & ACK:
            take_syn_ack(tables, number, d, time, seq, ack)
        else:
            take_syn(tables, number, d, time, seq, length)
        seq = (seq + 1) & 0xFFFFFFFF
    else:
        side.sent_data = 1
    if flags & ACK and not flags & SYN:
        take_ack(connection, other, d, time, ack)
    if length > 0:
        take_data(tables, number, d, time, seq, buffer, at, captured, length)
    if flags & FIN:
        if side.fin == NONE:
            side.fin = time
        if other.fin != NONE:
            connection.ended = 1
