"""Find the end of an HTTP/1 message body (RFC 9112, section 6)."""
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

from sojourn.analyses.pcap.tracking.heads import CR, LF
from sojourn.analyses.pcap.tracking.states import ABSENT, CHUNKED, HEAD, OPEN
from sojourn.model.compilation import compiled_part

SIZE, SIZE_REST, DATA, TRAILER, TRAILER_REST = range(5)
"""Parts of a chunked body (``chunk_part``): a chunk's size, the rest of that line, the chunk with its line end, the
start of a trailer line, the rest of it."""


@compiled_part
def take_octet(side, octet):
    """Process one framing byte of a chunked body; return whether the body ends with it."""
    part = side.chunk_part
    if part == SIZE:
        digit = ABSENT
        if 48 <= octet <= 57:
            digit = octet - 48
        elif 97 <= (octet | 32) <= 102:
            digit = (octet | 32) - 87
        if digit != ABSENT and side.chunk < 1 << 56:
            side.chunk = side.chunk * 16 + digit
        elif octet != LF:
            side.chunk_part = SIZE_REST
    if octet == LF:
        if part <= SIZE_REST and side.chunk > 0:
            side.chunk, side.chunk_part = side.chunk + 2, DATA
        else:
            side.chunk_part = TRAILER
        return part == TRAILER
    if part == TRAILER and octet != CR:
        side.chunk_part = TRAILER_REST
    return False


@compiled_part
def chunked_bytes(side, octets, at, captured, size):
    """Return how many of ``size`` bytes belong to a chunked body (RFC 9112, 7.1); ABSENT: too few were captured."""
    i = 0
    while i < size:
        if side.chunk_part == DATA:
            step = min(size - i, side.chunk)
            side.chunk -= step
            i += step
            if side.chunk == 0:
                side.chunk_part = SIZE
            continue
        if i >= captured:
            return ABSENT
        i += 1
        if take_octet(side, octets[at + i - 1]):
            side.mode = HEAD
            break
    return i


@compiled_part
def body_bytes(side, octets, at, captured, size, position):
    """Return how many of ``size`` bytes from ``position`` on belong to the current body, which has a known end."""
    if side.mode == CHUNKED:
        consumed = chunked_bytes(side, octets, at, captured, size)
        if consumed == ABSENT:
            side.mode = OPEN
            return size
        return consumed
    consumed = min(size, side.end - position)
    if position + consumed >= side.end:
        side.mode = HEAD
    return max(consumed, 0)
