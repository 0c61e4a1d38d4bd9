"""Locate the beginning of a log's last minutes by bisection, without reading the lines before.

Lines are in the order in which nginx wrote them, so nearly in the order of their ``time``: workers buffer their lines
and flush them slightly out of order. Reading therefore begins a little earlier (``SLACK``).
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable

from sojourn.readers.lines import LINE_LIMIT

Start = Callable[[int], int]
"""Returns the byte at which to begin in an open file."""

STEP = 64 << 10  # bytes read at a time in search of a line with a time
SLACK = 60.0  # s by which a line may be out of order: the longest plausible ``flush`` of access_log
FAR = 4 << 20  # bytes without a line with a time, after which the search ends


class Tail:
    """The start position of the last minutes of a log.

    Args:
        wall: the local time, unix s.
        seconds: length of the wanted end of the log; for an older log, before its last record.
        most: maximum number of lines.

    Attributes:
        since: instant (unix s) from which on the log is known; None: from its beginning.
    """

    def __init__(self, wall: float, seconds: float, most: int) -> None:
        self.since: float | None = None
        self._wall, self._seconds, self._most = wall, seconds, most

    def __call__(self, handle: int) -> int:
        """See ``Start``."""
        last = last_time(handle)
        since = min(self._wall, self._wall if last is None else last) - self._seconds
        begin = place_of(handle, since - SLACK, int(self._most * line_length(handle)))
        self.since = since if begin else None
        return begin


def from_the_beginning(_handle: int) -> int:
    """Return 0."""
    return 0


def last_time(handle: int) -> float | None:
    """Return the latest ``time`` (unix s) in the last lines of a file; None where they have none."""
    end = os.fstat(handle).st_size
    begin = end
    while begin > 0 and end - begin < FAR:
        begin = max(begin - STEP, 0)
        lines = os.pread(handle, min(end - begin, FAR), begin).split(b"\n")
        times = [time for line in (lines if begin == 0 else lines[1:]) if (time := time_of(line)) is not None]
        if times:
            return max(times)
    return None


def place_of(handle: int, instant: float, most: int | None = None) -> int:
    """Return the byte at which the first line with a ``time`` of at least ``instant`` begins, or the end.

    Args:
        handle: of the file.
        instant: unix s.
        most: maximum distance from the end, bytes; the result is still at the beginning of a line.
    """
    end = os.fstat(handle).st_size
    low, high = 0, end
    while low < high:
        middle = (low + high) // 2
        line = _line_with_time(handle, middle, high)
        if line is None or line[0] >= instant:
            high = middle
        else:
            low = line[1]
    begin = low if most is None else max(low, end - most)
    if begin == end or _begins_line(handle, begin):
        return begin
    # Not at the beginning of a line: the next one.
    cut = os.pread(handle, LINE_LIMIT, begin).find(b"\n") + 1
    return begin + cut if cut else end


def line_length(handle: int) -> float:
    """Return the mean length of the last lines of a file, bytes."""
    end = os.fstat(handle).st_size
    data = os.pread(handle, STEP, max(end - STEP, 0))
    return len(data) / max(data.count(b"\n"), 1)


def time_of(line: bytes) -> float | None:
    """Return the ``time`` of a record (unix s); None if the line is not a record."""
    try:
        time = float(json.loads(line)["time"])
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None
    return time if math.isfinite(time) else None


def _begins_line(handle: int, place: int) -> bool:
    """Return whether a line begins at a byte: at the beginning of the file, or after a line end."""
    return place == 0 or os.pread(handle, 1, place - 1) == b"\n"


def _line_with_time(handle: int, begin: int, end: int) -> tuple[float, int] | None:
    """Return (time, end) of the first line that begins in [begin, end) and has a time."""
    data, place = b"", 0
    whole = _begins_line(handle, begin)
    while begin + len(data) < end and len(data) < FAR:
        part = os.pread(handle, STEP, begin + len(data))
        if not part:
            break
        data += part
        while (newline := data.find(b"\n", place)) >= 0 and begin + place < end:
            # Bytes before the first newline may belong to a line that begins earlier.
            time = time_of(data[place:newline]) if whole else None
            if time is not None:
                return time, begin + newline + 1
            place, whole = newline + 1, True
    return None
