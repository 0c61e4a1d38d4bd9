"""Compiled: scan lines that differ only in their values, split at their quotes."""

from __future__ import annotations

import numpy as np

from sojourn.model.compilation import compiled, compiled_part

TEXT, SECONDS, WHOLE, ADDRESS = 0, 1, 2, 3
BLANK = -(1 << 63)  # nothing, or -
ODD = BLANK + 1  # in a form that is not read here
SECONDS_DIGITS = 10  # before the point; a double holds these and six more exactly
WHOLE_DIGITS = 18
COMMA, DASH, POINT, COLON, SPACE, QUOTE, BACKSLASH = 44, 45, 46, 58, 32, 34, 92
LINE_FEED, CARRIAGE_RETURN = 10, 13
# Bytes that end or interrupt a text: a quote, a backslash, and bytes that JSON does not allow.
ONE = np.uint64(1)  # an unsigned index needs no check for negative values
ENDS = np.array([byte < SPACE or byte in {QUOTE, BACKSLASH} for byte in range(256)])


@compiled_part
def _micros(data, begin, end):  # type: ignore[no-untyped-def] # numba
    """Return whole microseconds of a decimal number with at most six digits after its point; the text is not empty."""
    at = begin
    negative = data[at] == DASH
    if negative:
        at += 1
    first = at
    value = 0
    while at < end and 48 <= data[at] <= 57:
        value = value * 10 + (data[at] - 48)
        at += 1
    if at == first or at - first > SECONDS_DIGITS:
        return ODD
    digits = 0
    if at < end:
        if data[at] != POINT:
            return ODD
        at += 1
        while at < end and 48 <= data[at] <= 57:
            value = value * 10 + (data[at] - 48)
            at += 1
            digits += 1
        if at < end or digits == 0 or digits > 6:
            return ODD
    for _ in range(6 - digits):
        value *= 10
    return -value if negative else value


@compiled_part
def _whole(data, begin, end):  # type: ignore[no-untyped-def] # numba
    if end - begin > WHOLE_DIGITS:
        return ODD
    value = 0
    for at in range(begin, end):
        if not 48 <= data[at] <= 57:
            return ODD
        value = value * 10 + (data[at] - 48)
    return value


@compiled_part
def _of_one_attempt(data, begin, end):  # type: ignore[no-untyped-def] # numba
    for at in range(begin, end):
        if data[at] == COMMA:
            return False
        if data[at] == COLON and begin < at < end - 1 and data[at - 1] == SPACE and data[at + 1] == SPACE:
            return False
    return True


@compiled_part
def _number(data, begin, end, kind):  # type: ignore[no-untyped-def] # numba
    if begin == end or (end - begin == 1 and data[begin] == DASH):
        return BLANK
    if kind == SECONDS:
        return _micros(data, begin, end)
    if kind == WHOLE:
        return _whole(data, begin, end)
    if kind == ADDRESS and not _of_one_attempt(data, begin, end):
        return ODD
    return 0


@compiled_part
def _stands(data, at, end, between, begin, stop):  # type: ignore[no-untyped-def] # numba
    """Return whether a line that ends at ``end`` has ``between[begin:stop]`` at ``at``; False for -1."""
    if at < 0 or at + stop - begin > end:
        return False
    position, there = np.uint64(at), np.uint64(begin)
    for _ in range(stop - begin):
        if data[position] != between[there]:
            return False
        position += ONE
        there += ONE
    return True


@compiled_part
def _closing_quote(data, at, end):  # type: ignore[no-untyped-def] # numba
    """Return the end of the value that begins at ``at``; -1 if it has an escape or a byte that JSON does not allow."""
    position, last = np.uint64(at), np.uint64(end)
    while position < last and not ENDS[data[position]]:
        position += ONE
    return np.int64(position) if position < last and data[position] == QUOTE else np.int64(-1)


@compiled
def scan(data, lines, between, between_ends, slots, kinds, spans, numbers):  # type: ignore[no-untyped-def] # numba
    """Return which lines have the shape, and fill in the positions of their values.

    Args:
        data: bytes of all lines.
        lines: begin of each line, and end of the last.
        between: the bytes before the first value, between values, and after the last, concatenated.
        between_ends: end of each of these in ``between``.
        slots: index of each value in ``spans`` and ``numbers``; -1: none.
        kinds: kind of each value.
        spans: output: line, slot -> begin and end of the value.
        numbers: output: slot, line -> whole microseconds (``SECONDS``), the number (``WHOLE``), ``BLANK``, or 0.
    """
    count = len(lines) - 1
    sound = np.zeros(count, np.bool_)
    for line in range(count):
        at, end = lines[line], lines[line + 1]
        if end > at and data[end - 1] == LINE_FEED:
            end -= 1
            if end > at and data[end - 1] == CARRIAGE_RETURN:
                end -= 1
        begin = 0
        for value in range(len(between_ends)):
            stop = between_ends[value]
            if not _stands(data, at, end, between, begin, stop):
                at = -1
                break
            at += stop - begin
            begin = stop
            if value == len(slots):
                break
            first, at = at, _closing_quote(data, at, end)
            slot = slots[value]
            if at < 0 or slot < 0:
                continue
            spans[line, slot, 0], spans[line, slot, 1] = first, at
            numbers[slot, line] = _number(data, first, at, kinds[value])
            if numbers[slot, line] == ODD:
                at = -1
                break
        sound[line] = at == end
    return sound


@compiled
def gathered(data, spans, rows, slots, separator):  # type: ignore[no-untyped-def] # numba
    """Copy values of some lines: (offsets, bytes); several slots give one text per line, joined by ``separator``.

    ``slots``: -1 for a missing value.
    """
    offsets = np.empty(len(rows) + 1, np.int32)
    total = 0
    for k in range(len(rows)):
        offsets[k] = total
        for slot in slots:
            if slot >= 0:
                total += spans[rows[k], slot, 1] - spans[rows[k], slot, 0]
        total += 2 * (len(slots) - 1)
    offsets[len(rows)] = total
    copied = np.empty(total, np.uint8)
    to = np.uint64(0)
    for k in range(len(rows)):
        for part in range(len(slots)):
            if part:
                copied[to] = separator
                copied[to + ONE] = 48 + (slots[part] >= 0)
                to += ONE + ONE
            if slots[part] >= 0:
                position = np.uint64(spans[rows[k], slots[part], 0])
                for _ in range(spans[rows[k], slots[part], 1] - spans[rows[k], slots[part], 0]):
                    copied[to] = data[position]
                    to += ONE
                    position += ONE
    return offsets, copied
