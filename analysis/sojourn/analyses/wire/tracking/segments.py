"""A segment, and what it changes: the handshake, the payload, the end of a connection (RFC 9293)."""
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

from sojourn.analyses.wire.tracking.protocol_detection import fill_payload, miss_payload, take_payload
from sojourn.analyses.wire.tracking.reassembly_gaps import close_holes, first_missing, open_hole
from sojourn.analyses.wire.tracking.states import ABSENT, NONE, SEEN
from sojourn.model.compilation import compiled_part

FIN, SYN, RST, ACK = 0x01, 0x02, 0x04, 0x10
BASE = 1 << 32
FAR = 1 << 26
"""Bytes beyond any window: payload as far from what was expected is of another connection."""

COPY_TIME, COPY_TIME_UNNUMBERED = 1_000_000, 200_000
"""ns between copies of one packet; less where the packet has no number of its own to tell it from a repetition."""

COPY_TIME_SYN = 100_000_000
"""The same for SYN and SYN-ACK: no timer sends one again that soon (RFC 6298 begins at a second)."""

TIMER = 200_000_000
"""ns after which a repeated SYN-ACK is one of the server's timer; sooner, something else made it."""

MARGIN = 10_000_000
"""ns by which a packet must have been there before the timer, for the timer not to have crossed it."""


@compiled_part
def position_of(near, seq):
    """The position of a sequence number, that which is nearest to position ``near``."""
    ahead = (seq - near) & 0xFFFFFFFF
    return near + (ahead if ahead < 1 << 31 else ahead - BASE)


@compiled_part
def is_copy(flows, row, packets, time, numbers, rest, ip_id):
    """Whether this packet is among the last ones of its direction: captured on several interfaces."""
    limit = COPY_TIME_SYN if rest & SYN else COPY_TIME if ip_id != 0 else COPY_TIME_UNNUMBERED
    for k in range(min(packets, SEEN)):
        one = flows.seen[row, k]
        if one.numbers == numbers and one.rest == rest and one.ip_id == ip_id and abs(time - one.time) <= limit:
            return True
    return False


@compiled_part
def remember(tables, flows, row, time, numbers, rest, ip_id):
    """Keep a packet to know its copies by."""
    side = tables.sides[row]
    one = flows.seen[row, side.seen_at]
    one.time, one.numbers, one.rest, one.ip_id = time, numbers, rest, ip_id
    side.seen_at = (side.seen_at + 1) % SEEN


@compiled_part
def is_answer_of_another(one, me, other, seq, ack):
    """Whether a SYN-ACK belongs to a new connection."""
    if me.isn == seq:
        return False
    # A server that sends SYN cookies answers a repeated SYN with another number; a SYN may bring payload.
    answers = other.isn != ABSENT and BASE + other.isn < position_of(other.next, ack) <= other.next
    return not answers and (one.ended == 1 or me.begun == 1 or other.isn != ABSENT)


@compiled_part
def is_syn_of_another(one, me, other, seq):
    """Whether a SYN belongs to a new connection."""
    if me.isn == seq:  # asked again, even after a reset: some systems do not take that for an answer
        return one.ended == 1 and one.reset == NONE
    at_once = one.syn != NONE and one.syn_ack == NONE and not me.begun  # both sides ask
    return one.ended == 1 or me.isn != ABSENT or (not at_once and (me.begun == 1 or other.begun == 1))


@compiled_part
def is_another(tables, number, d, seq, ack, flags, length):
    """Whether a segment of the flow belongs to a new connection: the pair of address and port is used again."""
    one = tables.connections[number]
    me, other = tables.sides[2 * number + d], tables.sides[2 * number + 1 - d]
    if flags & SYN:
        return is_answer_of_another(one, me, other, seq, ack) if flags & ACK else is_syn_of_another(one, me, other, seq)
    if one.ended and length > 0 and me.begun and not flags & RST:
        ahead = position_of(me.next, seq) - me.next
        return ahead < -FAR or ahead > FAR or (me.fin != NONE and ahead > 0)
    return False


@compiled_part
def take_syn(tables, number, d, time, seq, length):
    """A SYN: the client asks."""
    one = tables.connections[number]
    side = tables.sides[2 * number + d]
    if side.isn != seq:
        side.isn, side.begun, side.next = seq, 1, BASE + seq + 1
    if one.syn != NONE and one.client != d:  # the other side has asked first
        return
    if one.reset != NONE:
        one.reset, one.reset_by, one.ended = NONE, ABSENT, 0
    one.client = d
    one.syns += 1
    one.syn_last = time
    if length > 0:
        one.syn_data = 1
    if one.syn == NONE:
        one.syn = time
        one.syn_answered = time
    elif one.syn_ack == NONE:
        one.syn_answered = time


@compiled_part
def proves_dropped_ack(one, client, time):
    """Whether a SYN-ACK repeated after the client's ACK means that the server, where this is captured, dropped it.

    It is one of the server's timer, and the ACK and a request were there well before: a bare ACK may be left aside on
    purpose (TCP_DEFER_ACCEPT). No SYN was repeated that it may answer, and none brought payload (TCP Fast Open).
    """
    return (
        time - one.syn_ack_last >= TIMER
        and time - one.established >= MARGIN
        and client.data != NONE
        and time - client.data >= MARGIN
        and one.syn_last <= one.established
        and not one.syn_data
    )


@compiled_part
def take_syn_ack(tables, number, d, time, seq, ack):
    """A SYN-ACK: the server has the connection in its SYN queue; another: it may not have taken the ACK."""
    one = tables.connections[number]
    side, other = tables.sides[2 * number + d], tables.sides[2 * number + 1 - d]
    if one.syn != NONE and one.client == d:  # both sides have asked
        return
    one.client = 1 - d
    one.syn_acks += 1
    if one.syn_ack == NONE:
        one.syn_ack = time
    if one.established != NONE and not side.spoke:  # one that has spoken had taken the ACK: this one comes late
        if proves_dropped_ack(one, other, time):
            one.acks_dropped += 1
            one.ack_taken = NONE
        else:
            one.acks_doubtful += 1
    one.syn_ack_last = time
    if side.isn != seq:
        side.isn, side.begun, side.next = seq, 1, BASE + seq + 1
    if not other.begun:  # its SYN is not in the capture, or comes later in it
        other.isn, other.begun = (ack - 1) & 0xFFFFFFFF, 1
        other.next = BASE + other.isn + 1


@compiled_part
def take_ack(one, other, d, time, ack):
    """An acknowledgement."""
    if d == one.client and one.syn_ack != NONE:
        if one.established == NONE:
            one.established = time
        if one.ack_taken == NONE:
            one.ack_taken = time
    if other.begun:
        other.acknowledged = max(other.acknowledged, position_of(other.next, ack))


@compiled_part
def take_data(tables, number, d, time, seq, buffer, at, kept, length):
    """Payload: new, missing until now, or repeated."""
    one = tables.connections[number]
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
        fill_payload(tables, number, d, time, buffer, at, kept, length - max(fresh, 0), start, missing)
    if fresh > 0:
        old = length - fresh
        take_payload(tables, number, d, time, buffer, at + old, max(kept - old, 0), fresh, side.next)
        side.next = end
    elif filled == 0 and not (length == 1 and end == side.next):  # that one asks whether the other side is alive
        side.retransmissions += 1
        if one.last_request != ABSENT:
            tables.exchanges[one.last_request].retransmissions += 1


@compiled_part
def take_segment(tables, number, d, time, seq, ack, flags, window, length, buffer, at, kept):
    """One segment of a connection, sent by side ``d``."""
    one = tables.connections[number]
    side, other = tables.sides[2 * number + d], tables.sides[2 * number + 1 - d]
    one.packets += 1
    side.packets += 1
    one.last = max(one.last, time)
    if window == 0 and not flags & (SYN | RST):
        side.zero_windows += 1
    if flags & RST:
        if one.reset == NONE:
            one.reset, one.reset_by = time, d
        one.ended = 1
        return
    if flags & SYN:
        if flags & ACK:
            take_syn_ack(tables, number, d, time, seq, ack)
        else:
            take_syn(tables, number, d, time, seq, length)
        seq = (seq + 1) & 0xFFFFFFFF
    else:
        side.spoke = 1
    if flags & ACK and not flags & SYN:
        take_ack(one, other, d, time, ack)
    if length > 0:
        take_data(tables, number, d, time, seq, buffer, at, kept, length)
    if flags & FIN:
        if side.fin == NONE:
            side.fin = time
        if other.fin != NONE:
            one.ended = 1
