"""Assign the HTTP/1 bytes of either direction to exchanges.

A message's end follows from its head (RFC 9112, section 6). Where the head does not state it, or the capture lacks the
head, turns decide: the client's bytes after the start of an answer are another request.
"""
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

from sojourn.analyses.pcap.tracking.bodies import body_bytes
from sojourn.analyses.pcap.tracking.heads import (
    CR,
    HEAD_LIMIT,
    LF,
    copy,
    head_end,
    is_answer_start,
    is_request_start,
    is_usual_request,
    read_fields,
    read_request_line,
    status_of,
)
from sojourn.analyses.pcap.tracking.states import (
    ABSENT,
    CHUNKED,
    CONNECT_LIKE,
    GET_LIKE,
    HEAD,
    HEAD_LIKE,
    HOLED,
    N_CONNECTIONS,
    N_HEADS,
    NONE,
    OPEN,
    OVER,
    SIZED,
    UPGRADED,
)
from sojourn.analyses.pcap.tracking.turns import (
    begin_answer,
    begin_exchange,
    is_answered,
    next_unanswered,
    note_answer,
    note_request,
)
from sojourn.model.compilation import compiled, compiled_part
from sojourn.model.components import SWITCHING_PROTOCOLS

# --- heads ----------------------------------------------------------------------------------------------------


@compiled_part
def collect(tables, side, octets, at, size):
    """Add bytes to the incomplete head of a direction."""
    need = side.head_length + size
    if need > side.head_room:
        room = max(256, 2 * need)
        to = tables.counts[N_HEADS]
        tables.counts[N_HEADS] += room
        copy(tables.heads, to, tables.heads_read, side.head_at, side.head_length)
        side.head_at, side.head_room = to, room
    to = side.head_at + side.head_length
    copy(tables.heads, to, octets, at, size)
    side.head_length = need


@compiled_part
def finish_head(tables, number, d, octets, start, stop, position):
    """Apply a complete head, which ends before ``position``; return whether it is an interim answer's."""
    connection = tables.connections[number]
    side = tables.sides[2 * number + d]
    side.head_length = side.head_room = 0
    from_client = d == connection.client
    about, status, kind = connection.last_request, 0, GET_LIKE
    if from_client:
        start = read_request_line(tables, about, octets, start, stop)
    else:
        status = status_of(octets, start, stop)
        about = ABSENT if connection.orphan else connection.last_answered
        if about != ABSENT:
            kind = tables.exchanges[about].kind
            if 100 <= status < 200 and status != SWITCHING_PROTOCOLS:  # the final answer follows (RFC 9110, 15.2)
                tables.exchanges[about].response_first = NONE
                tables.exchanges[about].response_bytes = 0
            else:
                tables.exchanges[about].status = status
        if 100 <= status < 200 and status != SWITCHING_PROTOCOLS:
            side.mode = HEAD
            return True
    length, chunked = read_fields(tables, about, octets, start, stop, not from_client)
    if status == SWITCHING_PROTOCOLS or (not from_client and kind == CONNECT_LIKE and 200 <= status < 300):
        tables.counts[UPGRADED] += 1
        side.mode = OVER
        tables.sides[2 * number + 1 - d].mode = OVER
        return False
    if not from_client and (kind == HEAD_LIKE or status in (204, 304)):
        length, chunked = 0, False
    side.body_at = position
    if chunked:
        side.mode, side.chunk, side.chunk_part = CHUNKED, 0, 0
    elif length > 0:
        side.mode, side.end = SIZED, position + length
    elif length == ABSENT and not from_client:
        side.mode = OPEN
    else:
        side.mode = HEAD
    return False


@compiled_part
def give_up_head(tables, number, d):
    """Apply an incomplete head, of which no more bytes follow; the end of the body is unknown."""
    side = tables.sides[2 * number + d]
    if side.head_length > 0:
        finish_head(tables, number, d, tables.heads_read, side.head_at, side.head_at + side.head_length, side.next)
    if side.mode != OVER:
        side.mode = OPEN


@compiled
def give_up_heads(tables):
    """Apply every incomplete head at the end of the capture."""
    for number in range(tables.counts[N_CONNECTIONS]):
        for d in range(2):
            if tables.sides[2 * number + d].head_length > 0:
                give_up_head(tables, number, d)


@compiled_part
def head_bytes(tables, number, d, octets, at, captured, size, position):
    """Return how many of ``size`` bytes belong to the current head, and whether it is an interim answer's."""
    side = tables.sides[2 * number + d]
    before = side.head_length
    if before == 0:
        end = head_end(octets, at, at + captured)
        if end != ABSENT:
            consumed = end - at
            return consumed, finish_head(tables, number, d, octets, at, end, position + consumed)
    if captured > 0:
        collect(tables, side, octets, at, min(captured, HEAD_LIMIT))
        # The empty line may have begun before.
        end = head_end(tables.heads_read, side.head_at + max(before - 3, 0), side.head_at + side.head_length)
        if end != ABSENT:
            consumed = end - side.head_at - before
            return consumed, finish_head(tables, number, d, tables.heads_read, side.head_at, end, position + consumed)
    if captured < size or side.head_length >= HEAD_LIMIT:  # cut by the capture, or not a head
        give_up_head(tables, number, d)
    return size, False


# --- the two directions ---------------------------------------------------------------------------------------


@compiled_part
def is_empty(tables, exchange, from_client):
    """Return whether an exchange has no byte of its request (or, not ``from_client``, of its answer)."""
    if exchange == ABSENT:
        return False
    row = tables.exchanges[exchange]
    return (row.request_bytes if from_client else row.response_bytes) == 0


@compiled_part
def take_request(tables, number, d, time, octets, at, captured, size, position):
    """Process ``size`` new bytes of the client from ``position`` on; ``octets`` has ``captured`` of them, at ``at``."""
    connection = tables.connections[number]
    side = tables.sides[2 * number + d]
    done = 0
    while done < size and side.mode != OVER:
        remaining = max(captured - done, 0)
        begins = remaining > 0 and done == 0 and is_usual_request(octets, at, at + captured)
        restarted = (
            begins and side.mode == HOLED and side.head_length == 0 and is_empty(tables, connection.last_request, True)
        )
        if restarted:  # the missing bytes belong to the message before
            side.mode = HEAD
        if OPEN <= side.mode <= HOLED:
            if not (is_answered(tables, connection) and (begins or remaining == 0)):
                note_request(tables, connection, time, size - done)
                return
            give_up_head(tables, number, d)
            if side.mode == OVER:
                return
            side.mode = HEAD
        elif side.mode == SIZED and begins and position == side.body_at and is_answered(tables, connection):
            side.mode = HEAD  # the server rejected the announced body, and the client did not send it
        if SIZED <= side.mode <= CHUNKED:
            consumed = body_bytes(side, octets, at + done, remaining, size - done, position + done)
            note_request(tables, connection, time, consumed)
            done += consumed
            continue
        if side.head_length == 0:
            if remaining > 0 and (
                octets[at + done] == CR or octets[at + done] == LF
            ):  # empty lines before a request (RFC 9112, section 2.2)
                done += 1
                continue
            if remaining > 0 and not is_request_start(octets, at + done, at + captured):
                side.mode = OPEN
                continue
            if not restarted:
                begin_exchange(tables, number, time)
        last_request = connection.last_request
        consumed, _ = head_bytes(tables, number, d, octets, at + done, remaining, size - done, position + done)
        if last_request != ABSENT:
            note_request(tables, connection, time, consumed)
        done += consumed


@compiled_part
def take_answer(tables, number, d, time, octets, at, captured, size, position):
    """Process new bytes of the server; arguments as of ``take_request``."""
    connection = tables.connections[number]
    side = tables.sides[2 * number + d]
    done = 0
    while done < size and side.mode != OVER:
        remaining = max(captured - done, 0)
        begins = remaining > 0 and done == 0 and is_answer_start(octets, at, at + captured)
        if (
            begins
            and side.mode == HOLED
            and side.head_length == 0
            and is_empty(tables, connection.last_answered, False)
        ):
            tables.exchanges[
                connection.last_answered
            ].response_first = NONE  # the missing bytes belong to the message before
            side.mode = HEAD
        waited = next_unanswered(tables, connection) != ABSENT
        if OPEN <= side.mode <= HOLED:
            if not (waited and (begins or remaining == 0)):
                note_answer(tables, connection, time, size - done)
                return
            give_up_head(tables, number, d)
            if side.mode == OVER:
                return
            side.mode = HEAD
        elif side.mode == SIZED and begins and waited and position == side.body_at:
            side.mode = HEAD  # no body in spite of its length: the request's head is unknown
        if SIZED <= side.mode <= CHUNKED:
            consumed = body_bytes(side, octets, at + done, remaining, size - done, position + done)
            note_answer(tables, connection, time, consumed)
            done += consumed
            continue
        if side.head_length == 0:
            begins = remaining > 0 and is_answer_start(octets, at + done, at + captured)
            if not begins and not waited:
                side.mode = OPEN
                continue
            begin_answer(tables, connection)
            if not begins:  # HTTP/0.9, or the head was not captured
                side.mode = OPEN
                note_answer(tables, connection, time, size - done)
                return
        consumed, interim = head_bytes(tables, number, d, octets, at + done, remaining, size - done, position + done)
        if not interim:
            note_answer(tables, connection, time, consumed)
        done += consumed


# --- missing packets ------------------------------------------------------------------------------------------


@compiled_part
def skip(tables, number, d, time, start, stop):
    """Skip missing payload from ``start`` to ``stop``, which is lost or out of order; later payload was captured."""
    connection = tables.connections[number]
    side = tables.sides[2 * number + d]
    if side.mode == SIZED and stop <= side.end:
        if stop == side.end:
            side.mode = HEAD
    elif side.mode == CHUNKED:
        side.mode = OPEN
    elif side.mode <= SIZED:
        if side.mode == SIZED:
            start = side.end
        if side.head_length == 0:
            if d == connection.client:
                begin_exchange(tables, number, time)
            else:
                begin_answer(tables, connection)
                note_answer(tables, connection, time, 0)
        side.mode, side.end = HOLED, start


@compiled_part
def fill(tables, number, d, time, octets, at, captured, size, position, missing):
    """Process late payload, which may complete a head; ``missing``: the first position that is still missing."""
    connection = tables.connections[number]
    side = tables.sides[2 * number + d]
    if d == connection.client:
        note_request(tables, connection, time, size)
    else:
        note_answer(tables, connection, time, size)
    if side.mode != HOLED or not position <= side.end < position + size:
        return
    before = side.end - position
    remaining = max(captured - before, 0)
    start = at + before
    if side.head_length == 0:
        if d == connection.client:
            fits = is_request_start(octets, start, start + remaining)
        else:
            fits = is_answer_start(octets, start, start + remaining)
        if not fits:
            side.mode = OPEN
            return
    side.mode = HEAD
    consumed, _ = head_bytes(tables, number, d, octets, start, remaining, size - before, side.end)
    if side.mode == HEAD and side.head_length > 0:  # not complete yet
        side.end = position + size
        side.mode = HOLED
        if missing != side.end:  # the payload after it was discarded
            give_up_head(tables, number, d)
    elif side.mode == CHUNKED or (side.mode == HEAD and side.end + consumed < side.next):
        side.mode = OPEN
    elif side.mode == SIZED and side.end <= side.next:
        side.mode = HEAD if side.end == side.next else OPEN
