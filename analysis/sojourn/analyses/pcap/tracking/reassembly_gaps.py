"""Track missing payload: packets that are lost or arrive out of order."""
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

from sojourn.analyses.pcap.tracking.states import ABSENT, FREE_HOLE, N_HOLES
from sojourn.model.compilation import compiled_part

LIMIT = 64
"""Holes that one direction keeps open; further holes are counted and not tracked."""


@compiled_part
def open_hole(tables, row, start, end):
    """Record that a direction lacks the payload from ``start`` to ``end``, with no payload after it yet."""
    side = tables.sides[row]
    open_holes = 0
    at = side.hole
    while at != ABSENT:
        open_holes += 1
        at = tables.holes[at].next
    if open_holes >= LIMIT:
        side.gaps += 1
        return
    _link(tables, row, ABSENT, start, end)


@compiled_part
def _link(tables, row, after, start, end):
    """Insert a hole after another hole of the direction, or (ABSENT) before all of them."""
    at = tables.counts[FREE_HOLE]
    if at != ABSENT:
        tables.counts[FREE_HOLE] = tables.holes[at].next
    else:
        at = tables.counts[N_HOLES]
        tables.counts[N_HOLES] += 1
    hole = tables.holes[at]
    hole.start, hole.end = start, end
    if after == ABSENT:
        hole.next = tables.sides[row].hole
        tables.sides[row].hole = at
    else:
        hole.next = tables.holes[after].next
        tables.holes[after].next = at


@compiled_part
def close_holes(tables, row, start, end):
    """Remove the holes between ``start`` and ``end``; return how many bytes they had."""
    filled = 0
    before = ABSENT
    at = tables.sides[row].hole
    while at != ABSENT:
        hole = tables.holes[at]
        after = hole.next
        low, high = max(start, hole.start), min(end, hole.end)
        if low < high:
            filled += high - low
            if low == hole.start and high == hole.end:
                if before == ABSENT:
                    tables.sides[row].hole = after
                else:
                    tables.holes[before].next = after
                hole.next = tables.counts[FREE_HOLE]
                tables.counts[FREE_HOLE] = at
                at = after
                continue
            if low > hole.start and high < hole.end:
                _link(tables, row, at, hole.start, low)
                hole.start = high
            elif low == hole.start:
                hole.start = high
            else:
                hole.end = low
        before = at
        at = after
    return filled


@compiled_part
def first_missing(tables, row):
    """Return the first missing position of a direction; ABSENT: none is missing."""
    first = ABSENT
    at = tables.sides[row].hole
    while at != ABSENT:
        if first == ABSENT or tables.holes[at].start < first:
            first = tables.holes[at].start
        at = tables.holes[at].next
    return first
