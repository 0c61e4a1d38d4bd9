"""Compiled: scan lines that differ only in their values, each of which ends at a certain byte."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sojourn.model.arrays import Bytes
from sojourn.model.compilation import compiled, compiled_inline, compiled_part

# The last three hold an element per attempt; SECONDS and ADDRESS with several elements are not read here.
TEXT, SECONDS, WHOLE, ADDRESS, CLOCK, ATTEMPT_TIMES, RESPONSE_TIMES, ATTEMPT_ADDRESSES = range(8)
TIMES = (ATTEMPT_TIMES, RESPONSE_TIMES)
BLANK = -(1 << 63)  # nothing, or -
ODD = BLANK + 1  # in a form that is not read here
ESCAPED = BLANK + 2  # a text that holds escapes
ATTEMPTS, BEFORE = 0, 1  # rows of ``of_attempts``: their number, and whole microseconds of all but the last
SECONDS_DIGITS = 10  # before the point; a double holds these and six more exactly
WHOLE_DIGITS = 18
COMMA, DASH, POINT, COLON, SPACE, QUOTE, BACKSLASH, SLASH, PLUS = 44, 45, 46, 58, 32, 34, 92, 47, 43
BEYOND_ASCII = 0x80
LETTER_U, SHORTEST_ESCAPED = 117, 7  # a text shorter than this may be - by an escape
LONGEST = 10**15  # us: in longer times doubles lose microseconds
LINE_FEED, CARRIAGE_RETURN = 10, 13
REDIRECT_LENGTH = 3  # of " : "
ONE = np.uint64(1)  # an unsigned index needs no check for negative values
# Of a hash: odd factors with as many ones as noughts, as in splitmix64 (Steele, Lea and Flood 2014).
FACTOR, OTHER_FACTOR = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)
MISSING = np.uint64(0x94D049BB133111EB)  # in place of a value that a line does not have
EIGHT, THIRTY_TWO, SIXTY_FOUR, ZERO_DIGIT = np.uint64(8), np.uint64(32), np.uint64(64), 48
# Of words (``words_of``).
WORD = 8  # bytes
ONES = np.uint64(0x0101010101010101)
BLANKS, BACKSLASHES, HIGHEST_BITS = ONES * np.uint64(SPACE), ONES * np.uint64(BACKSLASH), ONES * np.uint64(0x80)
ZEROS, HIGH_HALVES, SIXES = ONES * np.uint64(ZERO_DIGIT), ONES * np.uint64(0xF0), ONES * np.uint64(6)
# A word times this has in its highest byte which byte of the word is 1, if only one is.
PLACES, SEVEN, FIFTY_SIX = np.uint64(0x0001020304050607), np.uint64(7), np.uint64(56)
# Of eight digits: first and fifth byte of a word; the weights of the pairs of digits 0 and 4, and of 2 and 6.
TEN, SIXTEEN, FIRST_AND_FIFTH = np.uint64(10), np.uint64(16), np.uint64(0x000000FF000000FF)
EVEN_PAIRS, ODD_PAIRS = np.uint64(1_000_000 << 32 | 100), np.uint64(10_000 << 32 | 1)
MONTHS = np.frombuffer(b"JanFebMarAprMayJunJulAugSepOctNovDec", np.uint8)
DAYS = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
DAY, HOUR, MINUTE = 86_400, 3_600, 60
CLOCK_LENGTH = 26  # 01/Jan/2026:03:50:05 +0000


def words_of(data: Bytes) -> npt.NDArray[np.uint64]:
    """Return the word of eight bytes that begins at each byte, in the same memory: they are compared at once.

    The last seven bytes begin none.
    """
    if len(data) < 2 * WORD:
        # numpy calls an array of one element aligned: its type would be another one for compiled code.
        data = np.append(data, np.zeros(2 * WORD, np.uint8))
    return np.ndarray((len(data) - WORD + 1,), np.uint64, data, strides=(1,))


@compiled_part
def _eight_digits(words, end, count):  # type: ignore[no-untyped-def] # numba
    """Return the number that one to eight digits before ``end`` write; ``ODD`` if one of these bytes is none.

    The bytes are those of one word, pairs of digits are added up in pairs (Lemire 2022, "Parsing numbers at a gigabyte
    per second", section 6).
    """
    before = np.uint64(WORD * (WORD - count))  # bits of the word that precede the digits: they become 0
    word = (words[np.uint64(end - WORD)] ^ ZEROS) >> before << before
    if ((word + SIXES) | word) & HIGH_HALVES:
        return ODD
    word = word * TEN + (word >> EIGHT)
    even, odd = word & FIRST_AND_FIFTH, (word >> SIXTEEN) & FIRST_AND_FIFTH
    return np.int64((even * EVEN_PAIRS + odd * ODD_PAIRS) >> THIRTY_TWO)


@compiled_part
def _plain_whole(words, begin, end):  # type: ignore[no-untyped-def] # numba
    """Return a number of one to ten digits; ``ODD`` for another form, or at the begin of all bytes."""
    count = end - begin
    if count < 1 or count > SECONDS_DIGITS or begin < WORD:
        return ODD
    low = _eight_digits(words, end, min(count, WORD))
    if count <= WORD or low == ODD:
        return low
    high = _eight_digits(words, end - WORD, count - WORD)
    return ODD if high == ODD else high * 100_000_000 + low


@compiled_part
def _plain_micros(data, words, begin, end):  # type: ignore[no-untyped-def] # numba
    """Return whole microseconds of a number with no, three or six digits after its point; ``ODD`` for another form."""
    point, unit = end, 1_000_000
    if end - begin > 4 and data[np.uint64(end - 4)] == POINT:
        point, unit = end - 4, 1_000
    elif end - begin > 7 and data[np.uint64(end - 7)] == POINT:
        point, unit = end - 7, 1
    whole = _plain_whole(words, begin, point)
    if point == end or whole == ODD:
        return ODD if whole == ODD else whole * 1_000_000
    part = _plain_whole(words, point + 1, end)
    return ODD if part == ODD else whole * 1_000_000 + part * unit


@compiled_inline
def _plain(data, words, begin, end, kind):  # type: ignore[no-untyped-def] # numba
    """Return the number of a value in the forms that nearly all have, as ``_read``; ``ODD``: to be read by that."""
    if kind == WHOLE:
        return _plain_whole(words, begin, end)
    if kind != SECONDS and kind not in TIMES:
        return ODD
    number = _plain_micros(data, words, begin, end)
    return ODD if kind != SECONDS and number >= LONGEST else number


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
def _hex(data, at):  # type: ignore[no-untyped-def] # numba
    """Return the number that four hexadecimal digits write; -1 if there is another byte."""
    value = 0
    for position in range(at, at + 4):
        byte = data[position]
        if 48 <= byte <= 57:
            digit = byte - 48
        elif 65 <= byte <= 70:
            digit = byte - 55
        elif 97 <= byte <= 102:
            digit = byte - 87
        else:
            return -1
        value = value * 16 + digit
    return value


@compiled_part
def _escaped(data, at, end):  # type: ignore[no-untyped-def] # numba
    """Return the character that a JSON escape at ``at`` stands for, and its length; -1 for one that is not read here.

    Not read here: surrogates, and the character 0.
    """
    if at + 1 >= end:
        return -1, 2
    byte = data[at + 1]
    if byte in (QUOTE, BACKSLASH, SLASH):
        return np.int64(byte), 2
    for letter, character in ((98, 8), (102, 12), (110, 10), (114, 13), (116, 9)):  # b, f, n, r, t
        if byte == letter:
            return character, 2
    if byte != LETTER_U or at + 6 > end:
        return -1, 2
    character = _hex(data, at + 2)
    return (-1 if character == 0 or 0xD800 <= character < 0xE000 else character), 6


@compiled_part
def _utf8_length(data, at, end):  # type: ignore[no-untyped-def] # numba
    """Return the length of the UTF-8 sequence of a character beyond ASCII; 0 if it is none (RFC 3629, section 4)."""
    first = data[at]
    if 0xC2 <= first <= 0xDF:
        length = 2
    elif 0xE0 <= first <= 0xEF:
        length = 3
    elif 0xF0 <= first <= 0xF4:
        length = 4
    else:
        return 0
    if at + length > end:
        return 0
    for position in range(at + 1, at + length):
        if data[position] & 0xC0 != 0x80:
            return 0
    second = data[at + 1]
    if (first == 0xE0 and second < 0xA0) or (first == 0xED and second > 0x9F):
        return 0
    if (first == 0xF0 and second < 0x90) or (first == 0xF4 and second > 0x8F):
        return 0
    return length


@compiled_part
def _of_one_attempt(data, begin, end):  # type: ignore[no-untyped-def] # numba
    for at in range(begin, end):
        if data[at] == COMMA:
            return False
        if data[at] == COLON and begin < at < end - 1 and data[at - 1] == SPACE and data[at + 1] == SPACE:
            return False
    return True


@compiled_part
def _part_end(data, begin, end):  # type: ignore[no-untyped-def] # numba
    """Return where the element of a list of attempts that begins at ``begin`` ends, and where the next one begins.

    The next one begins behind the list if this is the last.
    """
    for at in range(begin, end - 1):
        if data[at] == COMMA and data[at + 1] == SPACE:
            return at, at + 2
        if data[at] == SPACE and data[at + 1] == COLON and at + 2 < end and data[at + 2] == SPACE:
            return at, at + 3
    return end, end + 1


@compiled_part
def _attempts(data, begin, end):  # type: ignore[no-untyped-def] # numba
    """Return how many attempts a value that is not blank lists, and where the last of them begins.

    -1 with an internal redirect, which is not read here.
    """
    count, first, following = 0, begin, begin
    while following <= end:
        first = following
        stop, following = _part_end(data, first, end)
        if following - stop == REDIRECT_LENGTH:
            return -1, first
        count += 1
    return count, first


@compiled_part
def _attempt_times(data, begin, end):  # type: ignore[no-untyped-def] # numba
    """Return the time of the last attempt (us; ``BLANK``: none; ``ODD``) and the sum of those before it.

    A list with an internal redirect is not read here.
    """
    before, last, at = 0, BLANK, begin
    while at <= end:
        if last != BLANK:
            before += last
        stop, following = _part_end(data, at, end)
        if following - stop == REDIRECT_LENGTH:
            return ODD, 0
        if stop == at + 1 and data[at] == DASH:
            last = BLANK
        else:
            last = _micros(data, at, stop) if stop > at else ODD
            if last == ODD or last < 0 or last >= LONGEST:
                return ODD, 0
        at = following
    return (ODD if before + max(last, 0) >= LONGEST else last), before


@compiled_part
def _number(data, begin, end, kind):  # type: ignore[no-untyped-def] # numba
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
def _line_end(data, begin, end):  # type: ignore[no-untyped-def] # numba
    """Return where a line ends, without the bytes that end it."""
    if end > begin and data[end - 1] == LINE_FEED:
        end -= 1
        if end > begin and data[end - 1] == CARRIAGE_RETURN:
            end -= 1
    return end


@compiled_part
def _equal(data, words, at, other, other_words, begin, length):  # type: ignore[no-untyped-def] # numba
    """Return whether ``data`` has from ``at`` on what ``other`` has from ``begin`` on, for ``length`` bytes."""
    position, there = np.uint64(at), np.uint64(begin)
    if length < WORD:
        for _ in range(length):
            if data[position] != other[there]:
                return False
            position += ONE
            there += ONE
        return True
    last, last_there = position + np.uint64(length) - EIGHT, there + np.uint64(length) - EIGHT
    while position < last:
        if words[position] != other_words[there]:
            return False
        position += EIGHT
        there += EIGHT
    return words[last] == other_words[last_there]  # some bytes once more


@compiled_part
def _interrupted(word, stops, least):  # type: ignore[no-untyped-def] # numba
    """Return the highest bit of each byte of a word that interrupts a value; 0 if none does.

    Where one does, bytes behind it may be marked as well: subtracting borrows from them (Warren 2012, "Hacker's
    Delight", section 6-1).

    Args:
        word: the bytes.
        stops: the byte that ends the value, in each byte.
        least: the least byte that does not interrupt it, in each byte.
    """
    stop, backslash = word ^ stops, word ^ BACKSLASHES
    marked = (word - least) | word | ((stop - ONES) & ~stop) | ((backslash - ONES) & ~backslash)
    return marked & HIGHEST_BITS


@compiled_part
def _closed(data, begin, at, end, stop, interrupts, escapes):  # type: ignore[no-untyped-def] # numba
    """Return the end of a value from ``begin`` that a byte at ``at`` interrupts, and whether it holds escapes.

    The end is -1 if the value holds a control character, bytes that are not UTF-8, or an escape that is not read here.
    """
    escaped = False
    while True:
        while at < end and not interrupts[data[at]]:
            at += 1
        if at == end:
            # The last value of a line; blanks at its end belong to no value.
            ended = stop in (LINE_FEED, CARRIAGE_RETURN) and (begin == end or data[end - 1] != SPACE)
            return (at if ended else -1), escaped
        if data[at] == stop:
            return at, escaped
        if data[at] >= BEYOND_ASCII:
            length = _utf8_length(data, at, end)
            if length == 0:
                return -1, escaped
        elif data[at] == BACKSLASH and escapes:
            character, length = _escaped(data, at, end)
            if character < 0:
                return -1, escaped
            escaped = True
        else:
            return -1, escaped
        at += length


@compiled_part
def _read(data, begin, end, kind, escaped):  # type: ignore[no-untyped-def] # numba
    """Return what a value is in ``numbers``, how many attempts it lists, and two facts of these attempts.

    The facts are where the last address begins, or whole microseconds of all attempts but the last.
    """
    if escaped and (kind != TEXT or end - begin < SHORTEST_ESCAPED):
        return ODD, 0, 0
    if end == begin or (end == begin + 1 and data[begin] == DASH):
        return BLANK, 0, 0
    if kind == ATTEMPT_ADDRESSES:
        count, last = _attempts(data, begin, end)
        return (ODD if count < 0 else 0), count, last
    if kind in (ATTEMPT_TIMES, RESPONSE_TIMES):
        number = _micros(data, begin, end)
        if number != ODD:
            return (number if 0 <= number < LONGEST else ODD), 1, 0
        number, before = _attempt_times(data, begin, end)
        count, _ = _attempts(data, begin, end)
        return number, count, before
    return (ESCAPED if escaped else _number(data, begin, end, kind)), 0, 0


@compiled
def scan(  # type: ignore[no-untyped-def]  # noqa: PLR0912, PLR0915 - one loop, inlined for its speed
    data, words, lines, between, between_words, between_ends, stops, slots, kinds, escapes, spans, numbers, of_attempts
):
    """Return which lines have the shape, and fill in the positions of their values.

    Args:
        data: bytes of all lines.
        words: of these, as from ``words_of``.
        lines: begin of each line, and end of the last.
        between: the bytes before the first value, between values, and after the last, concatenated.
        between_words: of these, as from ``words_of``.
        between_ends: end of each of these in ``between``.
        stops: the byte that ends each value; ``LINE_FEED``: the end of the line; ``CARRIAGE_RETURN``: that, and it has
            no blank.
        slots: index of each value in ``spans`` and ``numbers``; -1: none.
        kinds: kind of each value.
        escapes: whether values may hold escapes, as in JSON.
        spans: output: line, slot -> begin and end of the value; the last slot is the address of the last attempt.
        numbers: output: slot, line -> whole microseconds (``SECONDS``, ``CLOCK``; of the last attempt:
            ``ATTEMPT_TIMES``, ``RESPONSE_TIMES``), the number (``WHOLE``), ``BLANK``, ``ESCAPED``, or 0.
        of_attempts: output: ``ATTEMPTS`` (of the addresses, or of ``RESPONSE_TIMES`` without any) and ``BEFORE`` (of
            ``RESPONSE_TIMES``), line -> the number.
    """
    count = len(lines) - 1
    # Bytes that end or interrupt each value: its stop, a backslash, control characters, which JSON does not allow, and
    # what is not ASCII.
    interrupts = np.zeros((len(stops), 256), np.bool_)
    interrupts[:, :SPACE] = True
    interrupts[:, BACKSLASH] = True
    interrupts[:, BEYOND_ASCII:] = True
    stop_words, least_words = np.empty(len(stops), np.uint64), np.empty(len(stops), np.uint64)
    for value in range(len(stops)):
        interrupts[value, stops[value]] = True
        interrupts[value, SPACE] |= stops[value] == CARRIAGE_RETURN
        stop_words[value] = np.uint64(stops[value]) * ONES
        least_words[value] = BLANKS + ONES if stops[value] == CARRIAGE_RETURN else BLANKS
    sound = np.zeros(count, np.bool_)
    last_address = spans.shape[1] - 1
    for line in range(count):
        at, end = lines[line], _line_end(data, lines[line], lines[line + 1])
        begin = 0
        addresses, responses, before = -1, 0, 0
        fewest, most = 1 << 30, 0  # attempts that a time is listed for
        spans[line, last_address, 0], spans[line, last_address, 1] = 0, 0
        for value in range(len(between_ends)):
            stop = between_ends[value]
            length = stop - begin
            if at < 0 or at + length > end or not _equal(data, words, at, between, between_words, begin, length):
                at = -1
                break
            at += length
            begin = stop
            if value == len(slots):
                break
            first = at
            position, escaped = np.uint64(first), False
            stopped = np.uint64(0)
            while position + EIGHT <= np.uint64(end):
                stopped = _interrupted(words[position], stop_words[value], least_words[value])
                if stopped:
                    position += (((stopped & (~stopped + ONE)) >> SEVEN) * PLACES) >> FIFTY_SIX
                    break
                position += EIGHT
            while not stopped and position < np.uint64(end) and not interrupts[value, data[position]]:
                position += ONE
            at = np.int64(position)
            if at == end or data[position] != stops[value]:
                at, escaped = _closed(data, first, at, end, stops[value], interrupts[value], escapes)
            slot = slots[value]
            if at < 0 or slot < 0:
                continue
            spans[line, slot, 0], spans[line, slot, 1] = first, at
            if kinds[value] == TEXT and not escaped:  # most values
                blank = first == at or (at == first + 1 and data[first] == DASH)
                numbers[slot, line] = BLANK if blank else 0
                continue
            number, attempts, fact = _plain(data, words, first, at, kinds[value]), int(kinds[value] in TIMES), 0
            if number == ODD:
                number, attempts, fact = _read(data, first, at, kinds[value], escaped)
            numbers[slot, line] = number
            if number == ODD:
                at = -1
                break
            if kinds[value] == ATTEMPT_ADDRESSES:
                addresses = attempts
                spans[line, last_address, 0], spans[line, last_address, 1] = fact, at if attempts else fact
            elif attempts:
                fewest, most = min(fewest, attempts), max(most, attempts)
            if kinds[value] == RESPONSE_TIMES:
                # - is one attempt without a time.
                responses, before = max(attempts, min(at - first, 1)), fact
        if addresses > 0 and most > 0 and (fewest != addresses or most != addresses):
            at = -1
        of_attempts[ATTEMPTS, line] = addresses if addresses >= 0 else responses
        of_attempts[BEFORE, line] = before
        sound[line] = at == end
    return sound


@compiled_part
def _copy_unescaped(data, begin, end, copied, to):  # type: ignore[no-untyped-def] # numba
    """Copy a text with escapes as the characters that they stand for, in UTF-8; return where the copy ends."""
    at = begin
    while at < end:
        if data[at] != BACKSLASH:
            copied[to] = data[at]
            to += 1
            at += 1
            continue
        character, length = _escaped(data, at, end)
        at += length
        if character < 0x80:
            copied[to] = character
            to += 1
        elif character < 0x800:
            copied[to], copied[to + 1] = 0xC0 | character >> 6, 0x80 | character & 0x3F
            to += 2
        else:
            copied[to], copied[to + 1] = 0xE0 | character >> 12, 0x80 | character >> 6 & 0x3F
            copied[to + 2] = 0x80 | character & 0x3F
            to += 3
    return to


@compiled
def all_equal(data, words, spans, rows, slot):  # type: ignore[no-untyped-def] # numba
    """Return whether the value of a slot is the same in all lines."""
    first = spans[rows[0], slot, 0]
    length = spans[rows[0], slot, 1] - first
    for k in range(1, len(rows)):
        begin = spans[rows[k], slot, 0]
        if spans[rows[k], slot, 1] - begin != length or not _equal(data, words, begin, data, words, first, length):
            return False
    return True


@compiled
def gathered(data, spans, numbers, rows, slots, separator):  # type: ignore[no-untyped-def] # numba
    """Copy values of some lines: (offsets, bytes); several slots give one text per line, joined by ``separator``.

    ``slots``: -1 for a missing value. Escapes become the characters that they stand for.
    """
    offsets = np.empty(len(rows) + 1, np.int32)
    total = 0
    for k in range(len(rows)):
        for slot in slots:
            if slot >= 0:
                total += spans[rows[k], slot, 1] - spans[rows[k], slot, 0]
    copied = np.empty(total + 2 * (len(slots) - 1) * len(rows), np.uint8)
    to = np.uint64(0)
    for k in range(len(rows)):
        offsets[k] = to
        for part in range(len(slots)):
            slot = slots[part]
            if part:
                copied[to] = separator
                copied[to + ONE] = 48 + (slot >= 0)
                to += ONE + ONE
            if slot < 0:
                continue
            begin, end = spans[rows[k], slot, 0], spans[rows[k], slot, 1]
            if slot < len(numbers) and numbers[slot, rows[k]] == ESCAPED:
                to = np.uint64(_copy_unescaped(data, begin, end, copied, np.int64(to)))
                continue
            position = np.uint64(begin)
            for _ in range(end - begin):
                copied[to] = data[position]
                to += ONE
                position += ONE
    offsets[len(rows)] = to
    return offsets, copied[: np.int64(to)]


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


@compiled_part
def _hash_of(data, begin, end, state):  # type: ignore[no-untyped-def] # numba
    """Return a hash of some bytes, and of what was hashed into ``state`` before: a multiplication per eight bytes."""
    position, last, word, shift = np.uint64(begin), np.uint64(end), np.uint64(0), np.uint64(0)
    while position < last:
        word |= np.uint64(data[position]) << shift
        shift += EIGHT
        position += ONE
        if shift == SIXTY_FOUR:
            state = (state ^ word) * FACTOR
            state ^= state >> THIRTY_TWO
            word, shift = np.uint64(0), np.uint64(0)
    state = (state ^ word ^ np.uint64(end - begin) * OTHER_FACTOR) * FACTOR
    return state ^ state >> THIRTY_TWO


@compiled
def identities(data, spans, numbers, rows, slots):  # type: ignore[no-untyped-def] # numba
    """Return a hash of some values of each line, and which lines have one with escapes: their hash is to be replaced.

    ``slots``: -1 for a missing value. The hash is that of ``text_identities`` of the values as ``gathered`` joins them.
    """
    hashes, escaped = np.empty(len(rows), np.uint64), np.zeros(len(rows), np.bool_)
    for k in range(len(rows)):
        state = np.uint64(0)
        for slot in slots:
            if slot < 0:
                state = (state ^ MISSING) * FACTOR
                continue
            escaped[k] |= numbers[slot, rows[k]] == ESCAPED
            state = _hash_of(data, spans[rows[k], slot, 0], spans[rows[k], slot, 1], state)
        hashes[k] = state
    return hashes, escaped


@compiled
def text_identities(data, offsets, separator):  # type: ignore[no-untyped-def] # numba
    """Return a hash of each text; behind a separator, one byte says whether there is a value (1) or none (0)."""
    hashes = np.empty(len(offsets) - 1, np.uint64)
    for k in range(len(hashes)):
        state, at, end, missing = np.uint64(0), offsets[k], offsets[k + 1], False
        while True:
            stop = at
            while stop < end and data[stop] != separator:
                stop += 1
            state = (state ^ MISSING) * FACTOR if missing else _hash_of(data, at, stop, state)
            if stop == end:
                break
            missing = stop + 1 < end and data[stop + 1] == ZERO_DIGIT
            at = min(stop + 2, end)
        hashes[k] = state
    return hashes


@compiled
def line_ends(data):  # type: ignore[no-untyped-def] # numba
    """Return the position behind every line end of some bytes."""
    ends = np.empty(len(data) // 64 + 128, np.int32)
    count, whole = 0, len(data) // 64 * 64
    for begin in range(0, whole, 64):
        some = np.uint8(0)
        for k in range(64):  # without a branch: many bytes at once
            some |= np.uint8(data[begin + k] == LINE_FEED)
        if some == 0:
            continue
        if count + 128 > len(ends):
            ends = np.concatenate((ends, np.empty(len(ends), np.int32)))
        for k in range(64):
            if data[begin + k] == LINE_FEED:
                ends[count] = begin + k + 1
                count += 1
    for position in range(whole, len(data)):
        if data[position] == LINE_FEED:
            ends[count] = position + 1
            count += 1
    return ends[:count]
