"""Compiled: scan lines that differ only in their values, each of which ends at a certain byte."""

from __future__ import annotations

import numpy as np

from sojourn.model.compilation import compiled, compiled_part

TEXT, SECONDS, WHOLE, ADDRESS, CLOCK = 0, 1, 2, 3, 4
BLANK = -(1 << 63)  # nothing, or -
ODD = BLANK + 1  # in a form that is not read here
SECONDS_DIGITS = 10  # before the point; a double holds these and six more exactly
WHOLE_DIGITS = 18
COMMA, DASH, POINT, COLON, SPACE, QUOTE, BACKSLASH, SLASH, PLUS = 44, 45, 46, 58, 32, 34, 92, 47, 43
LINE_FEED, CARRIAGE_RETURN = 10, 13
ONE = np.uint64(1)  # an unsigned index needs no check for negative values
MONTHS = np.frombuffer(b"JanFebMarAprMayJunJulAugSepOctNovDec", np.uint8)
DAYS = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
DAY, HOUR, MINUTE = 86_400, 3_600, 60
CLOCK_LENGTH = 26  # 01/Jan/2026:03:50:05 +0000


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
def _digits(data, at, count):  # type: ignore[no-untyped-def] # numba
    """Return a number of exactly ``count`` digits; -1 if there is another byte."""
    value = 0
    for position in range(at, at + count):
        if not 48 <= data[position] <= 57:
            return -1
        value = value * 10 + (data[position] - 48)
    return value


@compiled_part
def _month(data, at):  # type: ignore[no-untyped-def] # numba
    for month in range(12):
        first = 3 * month
        if data[at] == MONTHS[first] and data[at + 1] == MONTHS[first + 1] and data[at + 2] == MONTHS[first + 2]:
            return month
    return -1


@compiled_part
def _clock(data, begin, end):  # type: ignore[no-untyped-def] # numba
    """Return microseconds since 1970 of an instant in the common log format."""
    if end - begin != CLOCK_LENGTH or data[begin + 2] != SLASH or data[begin + 6] != SLASH:
        return ODD
    if data[begin + 11] != COLON or data[begin + 14] != COLON or data[begin + 17] != COLON or data[begin + 20] != SPACE:
        return ODD
    day, month, year = _digits(data, begin, 2), _month(data, begin + 3), _digits(data, begin + 7, 4)
    hour, minute, second = _digits(data, begin + 12, 2), _digits(data, begin + 15, 2), _digits(data, begin + 18, 2)
    sign = data[begin + 21]
    zone_hour, zone_minute = _digits(data, begin + 22, 2), _digits(data, begin + 24, 2)
    if month < 0 or day < 1 or year < 1970 or min(hour, minute, second, zone_hour, zone_minute) < 0:
        return ODD
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if day > DAYS[month] + (leap and month == 1) or hour > 23 or minute > 59 or second > 59:
        return ODD
    if sign not in (PLUS, DASH) or zone_hour > 14 or zone_minute > 59:
        return ODD
    before = year - 1
    days = 365 * (year - 1970) + before // 4 - before // 100 + before // 400 - 477 + day - 1
    for number in range(month):
        days += DAYS[number]
    if leap and month > 1:
        days += 1
    zone = zone_hour * HOUR + zone_minute * MINUTE
    seconds = days * DAY + hour * HOUR + minute * MINUTE + second - (zone if sign == PLUS else -zone)
    return seconds * 1_000_000


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
    if kind == CLOCK:
        return _clock(data, begin, end)
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
def _closed(data, at, end, stop, interrupts):  # type: ignore[no-untyped-def] # numba
    """Return the end of the value that begins at ``at``; -1 if it has an escape or a control character."""
    position, last = np.uint64(at), np.uint64(end)
    while position < last and not interrupts[data[position]]:
        position += ONE
    if position == last:
        # The last value of a line; blanks at its end belong to no value.
        ended = stop in (LINE_FEED, CARRIAGE_RETURN) and (end == at or data[end - 1] != SPACE)
        return np.int64(position) if ended else np.int64(-1)
    return np.int64(position) if data[position] == stop else np.int64(-1)


@compiled
def scan(data, lines, between, between_ends, stops, slots, kinds, spans, numbers):  # type: ignore[no-untyped-def] # numba
    """Return which lines have the shape, and fill in the positions of their values.

    Args:
        data: bytes of all lines.
        lines: begin of each line, and end of the last.
        between: the bytes before the first value, between values, and after the last, concatenated.
        between_ends: end of each of these in ``between``.
        stops: the byte that ends each value; ``LINE_FEED``: the end of the line; ``CARRIAGE_RETURN``: that, and it has
            no blank.
        slots: index of each value in ``spans`` and ``numbers``; -1: none.
        kinds: kind of each value.
        spans: output: line, slot -> begin and end of the value.
        numbers: output: slot, line -> whole microseconds (``SECONDS``, ``CLOCK``), the number (``WHOLE``), ``BLANK``,
            or 0.
    """
    count = len(lines) - 1
    # Bytes that end or interrupt each value: its stop, a backslash, and control characters, which JSON does not allow.
    interrupts = np.zeros((len(stops), 256), np.bool_)
    interrupts[:, :SPACE] = True
    interrupts[:, BACKSLASH] = True
    for value in range(len(stops)):
        interrupts[value, stops[value]] = True
        interrupts[value, SPACE] |= stops[value] == CARRIAGE_RETURN
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
            first, at = at, _closed(data, at, end, stops[value], interrupts[value])
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


@compiled
def split_words(data, spans, rows, slot, into, numbers):  # type: ignore[no-untyped-def] # numba
    """Divide the value of a slot at its blanks, into as many words as ``into`` has slots.

    A word that is missing is empty; the rest after the last one belongs to none.
    """
    for k in range(len(rows)):
        line = rows[k]
        at, end = spans[line, slot, 0], spans[line, slot, 1]
        for word in range(len(into)):
            first = at
            while at < end and data[at] != SPACE:
                at += 1
            spans[line, into[word], 0], spans[line, into[word], 1] = first, at
            numbers[into[word], line] = BLANK if at == first or (at == first + 1 and data[first] == DASH) else 0
            at = min(at + 1, end)
