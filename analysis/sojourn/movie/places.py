"""Which of a backend's boxes each request is drawn in while a worker is held for it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

SLACK = 5e-3  # s: nginx stamps in milliseconds, so a worker may seem to begin the next request before it has ended one

Span = tuple[float, float]


def places_of(work: Sequence[Span], workers: Sequence[int] = ()) -> list[int]:
    """For each (begin, end) a place from 0.

    A worker has one place for as long as it lives, from its first begin to its last end; one that comes after it may
    have the same. Where a worker is not known (-1, or none given), or one holds several requests at a time (a thread
    pool, an event loop), each request has the lowest place that is free at its begin.
    """
    if len(workers) == len(work) and min(workers, default=-1) >= 0:
        lives: dict[int, Span] = {}
        for worker, (begin, end) in zip(workers, work, strict=True):
            first, last = lives.get(worker, (begin, end))
            lives[worker] = (min(first, begin), max(last, end))
        place_of = dict(zip(lives, _lowest_free(list(lives.values())), strict=True))
        places = [place_of[worker] for worker in workers]
        if not _overlap(sorted((place, *span) for place, span in zip(places, work, strict=True))):
            return places
    return _lowest_free(work)


def _lowest_free(spans: Sequence[Span]) -> list[int]:
    free_at: list[float] = []
    places = [0] * len(spans)
    for begin, end, index in sorted((*span, index) for index, span in enumerate(spans)):
        place = next((n for n, free in enumerate(free_at) if free <= begin + SLACK), len(free_at))
        free_at[place : place + 1] = [end]
        places[index] = place
    return places


def _overlap(ordered: Sequence[tuple[int, float, float]]) -> bool:
    """Whether two of the same place hold it at one time; sorted."""
    return any(
        place == next_place and begin < end - SLACK for (place, _, end), (next_place, begin, _) in pairwise(ordered)
    )
