"""The time that a worker spends between two requests: it ends one answer and takes the next waiting request.

A server closes a connection, writes its log and accepts again. While a request waits, a gap of up to ``LONGEST``
between an end and the next start is such work and not idleness: of 32 workers with 0.5 to 2.5 ms between two requests,
one is in such a gap for most of the time.
"""

from __future__ import annotations

import numpy as np

from sojourn.model.arrays import Floats, Ints
from sojourn.model.compilation import compiled_if_installed, little
from sojourn.model.one_worker import SLACK
from sojourn.timeline.classes import small_codes

LONGEST = 0.006  # s
TICK = 0.001  # s: nginx's clock; a request waits if it arrived earlier than that before the end


def ends_with_turnaround(
    arrival: Floats, begin: Floats, end: Floats, backend: Ints, by_begin: Ints, by_end: Ints
) -> Floats:
    """Return the end of each service, s, with the gap until a waiting request of the same backend starts.

    A gap is added to one service only: the last that ended before the start. ``by_begin``, ``by_end``: the services by
    their begin, and the same by their end.
    """
    extended = end.copy()
    if len(by_begin):
        begins, ends = (order[np.argsort(small_codes(backend[order]), kind="stable")] for order in (by_begin, by_end))
        with little(len(begins)):
            _extend(arrival, begin, end, backend, begins, ends, extended)
    return extended


@compiled_if_installed
def _extend(arrival, begin, end, backend, begins, ends, extended):  # type: ignore[no-untyped-def]
    """Match the start of each waiting request with the last end before it that no other start has."""
    matched = np.zeros(len(ends), np.bool_)
    place = 0  # of the first end after the start
    for i in begins:
        now, b = begin[i], backend[i]
        while place < len(ends):
            j = ends[place]
            if backend[j] > b or (backend[j] == b and end[j] > now + SLACK):
                break
            place += 1
        before = place - 1
        while before >= 0 and backend[ends[before]] == b and end[ends[before]] >= now - LONGEST:
            if not matched[before] and ends[before] != i:
                if arrival[i] <= end[ends[before]] - TICK + SLACK:
                    matched[before] = True
                    extended[ends[before]] = max(now, end[ends[before]])
                break
            before -= 1
