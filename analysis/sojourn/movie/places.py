"""Assign each request in service to one of its backend's boxes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

SLACK = 5e-3  # s: nginx stamps in milliseconds, so a worker's requests may seem to overlap

Span = tuple[float, float]


def places_of(work: Sequence[Span], workers: Sequence[int] = (), most: int = 0) -> list[int]:
    """Return a place from 0 for each (begin, end), s.

    A worker keeps one place from its first begin to its last end; a later worker may reuse it. Where a worker is
    unknown (-1, or no workers), or serves several requests at a time (a thread pool, an event loop), each request gets
    the lowest place that is free at its begin; of at most ``most`` places (0: no maximum), the one free soonest.
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
    return _lowest_free(work, most)


def _lowest_free(spans: Sequence[Span], most: int = 0) -> list[int]:
    free_at: list[float] = []
    places = [0] * len(spans)
    for begin, end, index in sorted((*span, index) for index, span in enumerate(spans)):
        place = next((n for n, free in enumerate(free_at) if free <= begin + SLACK), len(free_at))
        if most and place >= most:
            place = free_at.index(min(free_at))
        free_at[place : place + 1] = [end]
        places[index] = place
    return places


def _overlap(ordered: Sequence[tuple[int, float, float]]) -> bool:
    """Return whether two spans of one place overlap; sorted by place and begin."""
    return any(
        place == next_place and begin < end - SLACK for (place, _, end), (next_place, begin, _) in pairwise(ordered)
    )
