"""Locate the beginning of a log's last minutes by bisection, without reading the lines before.

Lines are in the order in which nginx wrote them, so nearly in the order of their ``time``: workers buffer their lines
and flush them slightly out of order. Reading therefore begins a little earlier (``SLACK``).
"""

from __future__ import annotations

import os
from collections.abc import Callable

from sojourn.readers.formats.detect import detected_format
from sojourn.readers.formats.line_format import LineFormat
from sojourn.readers.formats.line_time import line_time
from sojourn.readers.formats.units import Units
from sojourn.readers.formats.wrapping import bare_line, fitting_wrapping, recognised_wrapping
from sojourn.readers.lines import LINE_LIMIT

Start = Callable[[int], int]
"""Returns the byte at which to begin in an open file."""
TimeOf = Callable[[bytes], float | None]

own_time = line_time(None)
"""Returns the ``time`` of one of Sojourn's own records (unix s); None if the line is none."""

STEP = 64 << 10  # bytes read at a time in search of a line with a time
SLACK = 60.0  # s by which a line may be out of order: the longest plausible ``flush`` of access_log
FAR = 4 << 20  # bytes without a line with a time, after which the search ends


class Tail:
    """The start position of the last minutes of a log.

    Args:
        wall: the local time, unix s.
        seconds: length of the wanted end of the log; for an older log, before its last record.
        most: maximum number of lines.
        form: the format of the lines; None: detected in the file.

    Attributes:
        since: instant (unix s) from which on the log is known; None: from its beginning.
    """

    def __init__(self, wall: float, seconds: float, most: int, form: LineFormat | Units | None = None) -> None:
        self.since: float | None = None
        self._wall, self._seconds, self._most = wall, seconds, most
        self._form = form

    def __call__(self, handle: int) -> int:
        """See ``Start``."""
        time_of = line_times(handle, self._form if isinstance(self._form, LineFormat) else None)
        last = last_time(handle, time_of)
        since = min(self._wall, self._wall if last is None else last) - self._seconds
        begin = place_of(handle, since - SLACK, int(self._most * line_length(handle)), time_of)
        self.since = since if begin else None
        return begin


def from_the_beginning(_handle: int) -> int:
    """Return 0."""
    return 0


def line_times(handle: int, form: LineFormat | None = None) -> TimeOf:
    """Return the function from a line of a file to its instant (unix s), or None where it has none.

    Args:
        handle: of the file, whose first lines decide what is around its lines.
        form: the format of the lines within; None: that of the first ones, or Sojourn's own record.
    """
    lines = [line.decode("utf-8", "replace") for line in os.pread(handle, STEP, 0).split(b"\n")[:-1]]
    wrapping, _ = recognised_wrapping(lines) if form is None else fitting_wrapping(lines, form)
    time_of = line_time(form or detected_format(bare_line(line, wrapping) for line in lines))
    if not wrapping:
        return time_of
    return lambda line: time_of(bare_line(line.decode("utf-8", "replace"), wrapping).encode("utf-8", "replace"))


def last_time(handle: int, time_of: TimeOf = own_time) -> float | None:
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


def place_of(handle: int, instant: float, most: int | None = None, time_of: TimeOf = own_time) -> int:
    """Return the byte at which the first line with a ``time`` of at least ``instant`` begins, or the end.

    Args:
        handle: of the file.
        instant: unix s.
        most: maximum distance from the end, bytes; the result is still at the beginning of a line.
        time_of: returns the instant of a line (unix s), or None.
    """
    end = os.fstat(handle).st_size
    low, high = 0, end
    while low < high:
        middle = (low + high) // 2
        line = _line_with_time(handle, middle, high, time_of)
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


def _begins_line(handle: int, place: int) -> bool:
    """Return whether a line begins at a byte: at the beginning of the file, or after a line end."""
    return place == 0 or os.pread(handle, 1, place - 1) == b"\n"


def _line_with_time(handle: int, begin: int, end: int, time_of: TimeOf) -> tuple[float, int] | None:
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
