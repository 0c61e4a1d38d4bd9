"""Parse heads of HTTP/1 messages (RFC 9112): the request line, the status, and selected fields.

A head may be cut: a line counts only if its end was captured. Values are stored as bytes without surrounding blanks.
"""
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sojourn.analyses.pcap.tracking.states import (
    ABSENT,
    CONNECT_LIKE,
    GET_LIKE,
    HEAD_LIKE,
    HOST,
    METHOD,
    N_TEXTS,
    PATH,
    QUEUEING_DELAY,
    REQUEST_ID,
)
from sojourn.model.compilation import compiled, compiled_part

HEAD_LIMIT = 1 << 16
VALUE_LIMIT = 8 << 10
TOKEN_LIMIT = 32


def table(tokens: tuple[bytes, ...]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return the tokens as rows of bytes, shape (tokens, longest), and their lengths."""
    lengths = np.array([len(token) for token in tokens])
    rows = np.zeros((len(tokens), lengths.max()), np.uint8)
    for row, token in zip(rows, tokens, strict=True):
        row[: len(token)] = np.frombuffer(token, np.uint8)
    return rows, lengths


# In the order of TEXTS from ``host`` on; then the fields that determine the end of the body.
FIELDS, FIELD_LENGTHS = table(
    (
        b"host",
        b"x-request-id",
        b"x-request-start",
        b"x-queueing-delay",
        b"x-service-time",
        b"x-worker",
        b"content-length",
        b"transfer-encoding",
    )
)
LENGTH_FIELD, CODING_FIELD = 6, 7

METHODS, METHOD_LENGTHS = table(
    (b"GET ", b"POST ", b"HEAD ", b"PUT ", b"DELETE ", b"PATCH ", b"OPTIONS ", b"CONNECT ", b"TRACE ", b"PROPFIND ")
)
ANSWERS, ANSWER_LENGTHS = table((b"HTTP/",))
OTHER_TARGETS, OTHER_TARGET_LENGTHS = table((b"rtsp", b"sip:", b"sips:", b"icap:"))
PREFACE, PREFACE_LENGTHS = table((b"PRI * HTTP/2.0\r\n",))
CHUNKED_CODING, CHUNKED_CODING_LENGTHS = table((b"chunked",))

SPACE, TAB, CR, LF, COLON, SLASH, STAR = 32, 9, 13, 10, 58, 47, 42


@compiled_part
def begins_with(octets, start, stop, tokens, lengths):
    """Return the index of the token at ``start``, possibly cut off by ``stop``; ABSENT: none of them."""
    for k in range(len(lengths)):
        size = min(lengths[k], stop - start)
        i = 0
        while i < size and octets[start + i] == tokens[k, i]:
            i += 1
        if i == size and size > 0:
            return k
    return ABSENT


@compiled_part
def is_request_start(octets, start, stop):
    """Return whether a request may begin here: letters, a blank, and the start of a target (RFC 9112, 3.2)."""
    if begins_with(octets, start, stop, METHODS, METHOD_LENGTHS) != ABSENT:
        return True
    i = start
    while i < stop and i - start < TOKEN_LIMIT:
        letter = octets[i] | 32
        if not (97 <= letter <= 122 or octets[i] == 45 or octets[i] == 95):
            break
        i += 1
    if i == start or i + 1 >= stop or octets[i] != SPACE:
        return False
    after = octets[i + 1]
    return after in (SLASH, STAR) or (after | 32) == 104


@compiled_part
def is_usual_request(octets, start, stop):
    """Return whether a usual method and a blank stand here; for bytes that may belong to a body, too."""
    which = begins_with(octets, start, stop, METHODS, METHOD_LENGTHS)
    return which != ABSENT and stop - start >= METHOD_LENGTHS[which]


@compiled_part
def is_other_protocol(octets, start, stop):
    """Return whether a request line names a protocol other than HTTP: in its version or, if cut, its target."""
    end = line_end(octets, start, stop)
    at = start
    while at < end and octets[at] != SPACE:
        at += 1
    if end == stop:
        return at + 1 < stop and begins_with(octets, at + 1, stop, OTHER_TARGETS, OTHER_TARGET_LENGTHS) != ABSENT
    while end > start and (octets[end - 1] == CR or octets[end - 1] == SPACE):
        end -= 1
    name = end
    while name > start and octets[name - 1] != SPACE:
        name -= 1
    slash = name
    while slash < end and 65 <= octets[slash] <= 90:
        slash += 1
    has_version = name < slash < end - 1 and octets[slash] == SLASH and 48 <= octets[slash + 1] <= 57
    return has_version and not is_answer_start(octets, name, end)


@compiled_part
def is_answer_start(octets, start, stop):
    """Return whether an answer may begin here."""
    return begins_with(octets, start, stop, ANSWERS, ANSWER_LENGTHS) != ABSENT


@compiled_part
def head_end(octets, start, stop):
    """Return the offset after a head's empty line; ABSENT: there is no empty line."""
    i = start
    while i < stop:
        if octets[i] == LF:
            if i + 1 < stop and octets[i + 1] == LF:
                return i + 2
            if i + 2 < stop and octets[i + 1] == CR and octets[i + 2] == LF:
                return i + 3
        i += 1
    return ABSENT


@compiled_part
def line_end(octets, start, stop):
    """Return the offset of the next LF, or ``stop``."""
    i = start
    while i < stop and octets[i] != LF:
        i += 1
    return i


@compiled_part
def copy(to, at, octets, start, size):
    """Copy ``size`` bytes of ``octets`` from ``start`` to ``to`` at ``at``."""
    for i in range(size):
        to[at + i] = octets[start + i]


@compiled_part
def keep(tables, number, which, octets, start, stop):
    """Store the bytes as value ``which`` of an exchange, unless it already has that value."""
    exchange = tables.exchanges[number]
    if exchange.text[which] != ABSENT:
        return
    while start < stop and (octets[start] == SPACE or octets[start] == TAB):
        start += 1
    while stop > start and (octets[stop - 1] == SPACE or octets[stop - 1] == TAB or octets[stop - 1] == CR):
        stop -= 1
    size = min(stop - start, VALUE_LIMIT)
    at = tables.counts[N_TEXTS]
    copy(tables.texts, at, octets, start, size)
    tables.counts[N_TEXTS] += size
    exchange.text[which] = at
    exchange.text_length[which] = size


@compiled_part
def field_at(octets, start, stop):
    """Return which of FIELDS the line names (ABSENT: none of them), and the offset of its value."""
    colon = start
    while colon < stop and octets[colon] != COLON:
        colon += 1
    size = colon - start
    if colon == stop:
        return ABSENT, colon
    for k in range(len(FIELD_LENGTHS)):
        if FIELD_LENGTHS[k] != size:
            continue
        i = 0
        while i < size and _lower(octets[start + i]) == FIELDS[k, i]:
            i += 1
        if i == size:
            return k, colon + 1
    return ABSENT, colon


@compiled_part
def _lower(octet):
    return octet + 32 if 65 <= octet <= 90 else octet


@compiled_part
def content_length(octets, start, stop):
    """Return the value of a Content-Length; ABSENT: it is not a number."""
    while start < stop and (octets[start] == SPACE or octets[start] == TAB):
        start += 1
    length = ABSENT
    while start < stop and 48 <= octets[start] <= 57 and length < 1 << 58:
        length = max(length, 0) * 10 + octets[start] - 48
        start += 1
    return length


@compiled_part
def read_fields(tables, number, octets, start, stop, answer):
    """Store the values of a head's fields for exchange ``number`` (ABSENT: store nothing).

    Returns:
        The body's Content-Length (ABSENT: none), and whether the body is chunked.
    """
    length, chunked = ABSENT, False
    while start < stop:
        end = line_end(octets, start, stop)
        if end == stop:
            break  # cut off: part of a value would be wrong
        which, value = field_at(octets, start, end)
        if which == LENGTH_FIELD:
            if length == ABSENT:
                length = content_length(octets, value, end)
        elif which == CODING_FIELD:
            last = end
            while last > value and octets[last - 1] <= SPACE:
                last -= 1
            size = CHUNKED_CODING_LENGTHS[0]
            i = 0
            while last - size >= value and i < size and _lower(octets[last - size + i]) == CHUNKED_CODING[0, i]:
                i += 1
            chunked = chunked or i == size
        elif which >= 0 and number >= 0:
            text = which + HOST
            if answer == (text >= QUEUEING_DELAY) or text == REQUEST_ID:  # an answer may name the request too
                keep(tables, number, text, octets, value, end)
        start = end + 1
    return length, chunked


@compiled_part
def read_request_line(tables, number, octets, start, stop):
    """Store the method and the target of a request line; return the offset of the next line."""
    end = line_end(octets, start, stop)
    blank = start
    while blank < end and octets[blank] != SPACE:
        blank += 1
    if blank == end:
        return end + 1
    keep(tables, number, METHOD, octets, start, blank)
    kind = begins_with(octets, start, blank + 1, METHODS, METHOD_LENGTHS)
    tables.exchanges[number].kind = HEAD_LIKE if kind == 2 else CONNECT_LIKE if kind == 7 else GET_LIKE
    target_end = end
    if end == stop:  # the line is cut: the target is complete if something follows it
        target_end = blank + 1
        while target_end < end and octets[target_end] != SPACE:
            target_end += 1
        if target_end == end:
            return end + 1
    else:
        while target_end > blank + 1 and octets[target_end - 1] != SPACE:
            target_end -= 1
        # "GET /" is HTTP/0.9; a blank in a target is invalid but occurs.
        target_end = target_end - 1 if target_end > blank + 1 and (octets[target_end] | 32) == 104 else end
    keep(tables, number, PATH, octets, blank + 1, target_end)
    return end + 1


@compiled_part
def status_of(octets, start, stop):
    """Return the status of an answer's head; 0: there is none."""
    if stop - start < 12 or octets[start + 8] != SPACE:
        return 0
    first = start + 9
    while first < stop and octets[first] == SPACE:
        first += 1
    if first + 3 > stop:
        return 0
    status = 0
    for i in range(first, first + 3):
        if not 48 <= octets[i] <= 57:
            return 0
        status = status * 10 + octets[i] - 48
    return status


@compiled
def gather(texts, starts, sizes, to):
    """Copy parts of ``texts``, given by ``starts`` and ``sizes``, into ``to``, one after the other."""
    at = 0
    for i in range(len(starts)):
        copy(to, at, texts, starts[i], sizes[i])
        at += sizes[i]
