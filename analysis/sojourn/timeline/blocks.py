"""Blocks of backends: many backends with few requests are computed together, and large ones side by side.

A block holds whole backends, one after the other. Its instants become whole numbers that grow from one backend to the
next, so that one search in sorted instants counts the requests of each backend for itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from sojourn.model.arrays import Bools, Codes, Floats, Ints
from sojourn.timeline.workers import grouped

BLOCK = 1 << 16  # requests of a block of several backends


class Blocks:
    """The requests of backends, backend after backend, each in the order of the requests.

    Attributes:
        order: the requests.
        ends: per backend, the end of its requests in ``order``.
        codes: the backend of each of the requests, in their own order.
    """

    def __init__(self, codes: Ints | Codes, count: int) -> None:
        self.codes = codes
        self.order, self.ends = grouped(codes, count)

    @property
    def begins(self) -> Ints:
        """Per backend, the begin of its requests in ``order``."""
        return np.append(0, self.ends)[:-1]

    def spans(self) -> Iterator[tuple[int, int]]:
        """Yield first and last + 1 of the backends of each block."""
        begins, first = self.begins, 0
        while first < len(self.ends):
            last = max(int(np.searchsorted(self.ends, begins[first] + BLOCK, "right")), first + 1)
            yield first, last
            first = last

    def rows(self, limit: int | None = None) -> list[Ints]:
        """Return the requests of each block; ``limit``: of each backend, only so many, the first ones."""
        begins = self.begins
        blocks = [self.order[begins[first] : self.ends[last - 1]] for first, last in self.spans()]
        if limit is None or (self.ends - begins <= limit).all():
            return blocks
        early = self.early(limit)
        return [block[early[block]] for block in blocks]

    def early(self, limit: int) -> Bools:
        """Return which requests are among the first ``limit`` of their backend."""
        early = np.ones(len(self.order), np.bool_)
        begins = self.begins
        for code in np.flatnonzero(self.ends - begins > limit):
            early[self.order[begins[code] + limit : self.ends[code]]] = False
        return early


def comparable(codes: Ints | Codes, *instants: Floats) -> Sequence[npt.NDArray[np.floating | np.integer]]:
    """Return instants so that those of one backend keep their order, and come before those of the next.

    Args:
        codes: the backend of each, ascending.
        instants: arrays of the same length, s; NaN comes last.
    """
    if not len(codes) or codes[0] == codes[-1]:
        return instants
    rank = np.unique(np.concatenate(instants), return_inverse=True)[1].astype(np.int64)
    keys = np.tile(codes.astype(np.int64), len(instants)) * (int(rank.max()) + 1) + rank
    return np.split(keys, len(instants))


def ordered_of_each(codes: Ints, values: Floats, count: int) -> tuple[Floats, Ints, Ints]:
    """Return the values of code 0 in their order, then those of code 1 and so on; the begin of each, and its number."""
    number = np.bincount(codes, minlength=count)
    return values[np.lexsort((values, codes))], np.cumsum(number) - number, number


def quantile_of_each(codes: Ints, values: Floats, count: int, share: float) -> tuple[Floats, Ints]:
    """Return a quantile of the values of each code from 0 to ``count`` - 1, as NumPy defines it, and their numbers.

    Args:
        codes: of each value.
        values: without NaN.
        count: number of codes.
        share: which quantile, from 0 to 1.

    Returns:
        The quantile per code, NaN without values; and the number of values.
    """
    ordered, begin, number = ordered_of_each(codes, values, count)
    quantile = np.full(count, np.nan)
    some = np.flatnonzero(number)
    place = share * (number[some] - 1)
    below = np.floor(place).astype(np.int64)
    low = ordered[begin[some] + below]
    step = ordered[begin[some] + np.minimum(below + 1, number[some] - 1)] - low
    part = place - below
    quantile[some] = np.where(part >= 0.5, low + step - step * (1 - part), low + step * part)
    return quantile, number
