"""HTTP/1 on a connection: which bytes of either direction belong to which exchange.

A message's end follows from its head (RFC 9112, section 6). Where the head does not tell, or the capture has not kept
the bytes that do, turns decide: the client's bytes after an answer has begun are another request.
"""
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

from sojourn.analyses.wire.tracking.bodies import body_bytes
from sojourn.analyses.wire.tracking.heads import (
    CR,
    HEAD_LIMIT,
    LF,
    copy,
    head_end,
    is_answer_start,
    is_known_request,
    is_request_start,
    read_fields,
    read_request_line,
    status_of,
)
from sojourn.analyses.wire.tracking.states import (
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
from sojourn.analyses.wire.tracking.turns import (
    awaited,
    begin_answer,
    begin_exchange,
    is_answered,
    note_answer,
    note_request,
)
from sojourn.model.compilation import compiled, compiled_part

# --- heads ----------------------------------------------------------------------------------------------------


@compiled_part
def collect(tables, side, octets, at, size):
    """Add bytes to the head of a direction that is not complete."""
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
    """Take what a head says; the bytes after it begin at ``position``. Whether it was an interim answer's."""
    one = tables.connections[number]
    side = tables.sides[2 * number + d]
    side.head_length = side.head_room = 0
    asks = d == one.client
    about, status, kind = one.last_request, 0, GET_LIKE
    if asks:
        start = read_request_line(tables, about, octets, start, stop)
    else:
        status = status_of(octets, start, stop)
        about = ABSENT if one.orphan else one.last_answered
        if about != ABSENT:
            kind = tables.exchanges[about].kind
            if 100 <= status < 200 and status != 101:  # the answer is still to come (RFC 9110, section 15.2)
                tables.exchanges[about].response_first = NONE
                tables.exchanges[about].response_bytes = 0
            else:
                tables.exchanges[about].status = status
        if 100 <= status < 200 and status != 101:
            side.mode = HEAD
            return True
    length, chunked = read_fields(tables, about, octets, start, stop, not asks)
    if status == 101 or (not asks and kind == CONNECT_LIKE and 200 <= status < 300):
        tables.counts[UPGRADED] += 1
        side.mode = OVER
        tables.sides[2 * number + 1 - d].mode = OVER
        return False
    if not asks and (kind == HEAD_LIKE or status in (204, 304)):
        length, chunked = 0, False
    side.body_at = position
    if chunked:
        side.mode, side.chunk, side.chunk_part = CHUNKED, 0, 0
    elif length > 0:
        side.mode, side.end = SIZED, position + length
    elif length == ABSENT and not asks:
        side.mode = OPEN
    else:
        side.mode = HEAD
    return False


@compiled_part
def give_up_head(tables, number, d):
    """Nothing more of the head will come: take what is there. The body's end is not known."""
    side = tables.sides[2 * number + d]
    if side.head_length > 0:
        finish_head(tables, number, d, tables.heads_read, side.head_at, side.head_at + side.head_length, side.next)
    if side.mode != OVER:
        side.mode = OPEN


@compiled
def give_up_heads(tables):
    """The capture has ended: take what is there of every head that is not complete."""
    for number in range(tables.counts[N_CONNECTIONS]):
        for d in range(2):
            if tables.sides[2 * number + d].head_length > 0:
                give_up_head(tables, number, d)


@compiled_part
def head_bytes(tables, number, d, octets, at, seen, size, position):
    """How many of ``size`` bytes belong to the head that is coming in, and whether it was an interim answer's."""
    side = tables.sides[2 * number + d]
    before = side.head_length
    if before == 0:
        end = head_end(octets, at, at + seen)
        if end != ABSENT:
            taken = end - at
            return taken, finish_head(tables, number, d, octets, at, end, position + taken)
    if seen > 0:
        collect(tables, side, octets, at, min(seen, HEAD_LIMIT))
        # The empty line may have begun before.
        end = head_end(tables.heads_read, side.head_at + max(before - 3, 0), side.head_at + side.head_length)
        if end != ABSENT:
            taken = end - side.head_at - before
            return taken, finish_head(tables, number, d, tables.heads_read, side.head_at, end, position + taken)
    if seen < size or side.head_length >= HEAD_LIMIT:  # cut by the capture, or no head at all
        give_up_head(tables, number, d)
    return size, False


# --- the two directions ---------------------------------------------------------------------------------------


@compiled_part
def is_empty(tables, exchange, asks):
    """Whether no byte of an exchange's request, or answer, has been seen."""
    if exchange == ABSENT:
        return False
    one = tables.exchanges[exchange]
    return (one.request_bytes if asks else one.response_bytes) == 0


@compiled_part
def take_request(tables, number, d, time, octets, at, kept, size, position):
    """New bytes of the client: ``size`` from ``position`` on, of which ``kept`` stand in ``octets`` from ``at`` on."""
    one = tables.connections[number]
    side = tables.sides[2 * number + d]
    done = 0
    while done < size and side.mode != OVER:
        seen = max(kept - done, 0)
        begins = seen > 0 and done == 0 and is_known_request(octets, at, at + kept)
        anew = begins and side.mode == HOLED and side.head_length == 0 and is_empty(tables, one.last_request, True)
        if anew:  # what is missing was of the message before
            side.mode = HEAD
        if OPEN <= side.mode <= HOLED:
            if not (is_answered(tables, one) and (begins or seen == 0)):
                note_request(tables, one, time, size - done)
                return
            give_up_head(tables, number, d)
            if side.mode == OVER:
                return
            side.mode = HEAD
        elif side.mode == SIZED and begins and position == side.body_at and is_answered(tables, one):
            side.mode = HEAD  # the client was told not to send the body it had announced
        if SIZED <= side.mode <= CHUNKED:
            taken = body_bytes(side, octets, at + done, seen, size - done, position + done)
            note_request(tables, one, time, taken)
            done += taken
            continue
        if side.head_length == 0:
            if seen > 0 and (
                octets[at + done] == CR or octets[at + done] == LF
            ):  # empty lines before a request (RFC 9112, section 2.2)
                done += 1
                continue
            if seen > 0 and not is_request_start(octets, at + done, at + kept):
                side.mode = OPEN
                continue
            if not anew:
                begin_exchange(tables, number, time)
        last_request = one.last_request
        taken, _ = head_bytes(tables, number, d, octets, at + done, seen, size - done, position + done)
        if last_request != ABSENT:
            note_request(tables, one, time, taken)
        done += taken


@compiled_part
def take_answer(tables, number, d, time, octets, at, kept, size, position):
    """New bytes of the server; as ``take_request``."""
    one = tables.connections[number]
    side = tables.sides[2 * number + d]
    done = 0
    while done < size and side.mode != OVER:
        seen = max(kept - done, 0)
        begins = seen > 0 and done == 0 and is_answer_start(octets, at, at + kept)
        if begins and side.mode == HOLED and side.head_length == 0 and is_empty(tables, one.last_answered, False):
            tables.exchanges[one.last_answered].response_first = NONE  # what is missing was of the message before
            side.mode = HEAD
        waited = awaited(tables, one) != ABSENT
        if OPEN <= side.mode <= HOLED:
            if not (waited and (begins or seen == 0)):
                note_answer(tables, one, time, size - done)
                return
            give_up_head(tables, number, d)
            if side.mode == OVER:
                return
            side.mode = HEAD
        elif side.mode == SIZED and begins and waited and position == side.body_at:
            side.mode = HEAD  # an answer without the body it gives the length of: the request's head was not seen
        if SIZED <= side.mode <= CHUNKED:
            taken = body_bytes(side, octets, at + done, seen, size - done, position + done)
            note_answer(tables, one, time, taken)
            done += taken
            continue
        if side.head_length == 0:
            begins = seen > 0 and is_answer_start(octets, at + done, at + kept)
            if not begins and not waited:
                side.mode = OPEN
                continue
            begin_answer(tables, one)
            if not begins:  # HTTP/0.9, or the head was not kept
                side.mode = OPEN
                note_answer(tables, one, time, size - done)
                return
        taken, interim = head_bytes(tables, number, d, octets, at + done, seen, size - done, position + done)
        if not interim:
            note_answer(tables, one, time, taken)
        done += taken


# --- packets that are missing ---------------------------------------------------------------------------------


@compiled_part
def skip(tables, number, d, time, start, stop):
    """The payload from ``start`` up to ``stop`` has not come, later payload has: it is lost, or out of order."""
    one = tables.connections[number]
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
            if d == one.client:
                begin_exchange(tables, number, time)
            else:
                begin_answer(tables, one)
                note_answer(tables, one, time, 0)
        side.mode, side.end = HOLED, start


@compiled_part
def fill(tables, number, d, time, octets, at, kept, size, position, missing):
    """Payload that was missing: the part of a head, if it is that. ``missing``: position of what is missing still."""
    one = tables.connections[number]
    side = tables.sides[2 * number + d]
    if d == one.client:
        note_request(tables, one, time, size)
    else:
        note_answer(tables, one, time, size)
    if side.mode != HOLED or not position <= side.end < position + size:
        return
    before = side.end - position
    seen = max(kept - before, 0)
    start = at + before
    if side.head_length == 0:
        if d == one.client:
            fits = is_request_start(octets, start, start + seen)
        else:
            fits = is_answer_start(octets, start, start + seen)
        if not fits:
            side.mode = OPEN
            return
    side.mode = HEAD
    taken, _ = head_bytes(tables, number, d, octets, start, seen, size - before, side.end)
    if side.mode == HEAD and side.head_length > 0:  # not complete yet
        side.end = position + size
        side.mode = HOLED
        if missing != side.end:  # what follows was let go
            give_up_head(tables, number, d)
    elif side.mode == CHUNKED or (side.mode == HEAD and side.end + taken < side.next):
        side.mode = OPEN
    elif side.mode == SIZED and side.end <= side.next:
        side.mode = HEAD if side.end == side.next else OPEN
