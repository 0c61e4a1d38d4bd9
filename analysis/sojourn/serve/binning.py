"""Bin requests by arrival and response time: one pass over the columns counts and sums for every part of a view."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from sojourn.model.arrays import Bools, Floats, Ints
from sojourn.model.compilation import compiled
from sojourn.model.parallel import THREADS, in_threads
from sojourn.serve.columns import BINS, SINGLE, RequestColumns


@dataclass(frozen=True)
class Area:
    """A rectangle of arrivals and response times.

    Attributes:
        begin, end: arrivals in [begin, end), unix time, us.
        low, high: response times in [low, high), s.
    """

    begin: int
    end: int
    low: float = 0.0
    high: float = np.inf

    def grid(self, count: int) -> tuple[int, int]:
        """Return the width (us) and the number of columns of equal time, about ``count``."""
        width = max(-(-(self.end - self.begin) // count), 1)
        return width, max(-(-(self.end - self.begin) // width), 1)


@dataclass(frozen=True)
class Binned:
    """Requests of an area in columns of equal time and bins of response time.

    Attributes:
        width: of a column, us.
        counts: (columns, ``BINS``) requests.
        sums: (columns, 3) seconds of response time, queueing delay and service time; an unknown time counts as 0.
        unknown: (columns) requests whose queueing delay is unknown.
        by_combination: requests of each combination.
    """

    width: int
    counts: Ints
    sums: Floats
    unknown: Ints
    by_combination: Ints

    @property
    def requests(self) -> int:
        """The number of requests."""
        return int(self.counts.sum())


def binned(columns: RequestColumns, chosen: Bools, area: Area, count: int) -> Binned:
    """Bin the requests of an area into about ``count`` columns.

    Args:
        columns: of all requests.
        chosen: whether the requests of each combination count.
        area: the rectangle.
        count: number of columns, at most.

    Raises:
        SojournError: numba is not installed.
    """
    low, high = SINGLE(area.low), SINGLE(area.high)
    width, number = area.grid(count)

    def work(part: slice) -> tuple[Ints, Floats, Ints, Ints]:
        counts, sums = np.zeros((number, BINS), np.int64), np.zeros((number, 3))
        unknown, by_combination = np.zeros(number, np.int64), np.zeros(len(chosen), np.int64)
        _bin(
            columns.arrival[part], columns.response[part], columns.queueing[part], columns.service[part],
            columns.bin[part], columns.combination[part], chosen, area.begin, width, low, high, counts,
            sums, unknown, by_combination,
        )  # fmt: skip
        return counts, sums, unknown, by_combination

    parts = in_threads(work, _parts(columns.between(area.begin, area.end)))
    counts, sums, unknown, by_combination = (sum(each[1:], each[0]) for each in zip(*parts, strict=True))
    return Binned(width, counts, sums, unknown, by_combination)


def values_of(columns: RequestColumns, chosen: Bools, area: Area) -> dict[str, Floats]:
    """Return the times of the requests of an area, s: response, queueing, service; NaN: unknown."""
    part = columns.between(area.begin, area.end)
    response = columns.response[part]
    inside = chosen[columns.combination[part]] & (response >= SINGLE(area.low)) & (response < SINGLE(area.high))
    times = {"response": response, "queueing": columns.queueing[part], "service": columns.service[part]}
    return {name: values[inside].astype(np.float64) for name, values in times.items()}


def _parts(whole: slice) -> list[slice]:
    """Return a slice as one part per thread."""
    edges = np.linspace(whole.start, whole.stop, THREADS + 1).astype(int).tolist()
    return [slice(begin, end) for begin, end in pairwise(edges)]


@compiled
def _bin(  # type: ignore[no-untyped-def]
    arrival, response, queueing, service, place, combination, chosen, begin, width, low, high, counts,
            sums, unknown,
    by_combination,
):  # fmt: skip
    """Add the requests with a chosen combination and a response time in [low, high) to the sums."""
    for i in range(len(arrival)):
        code = combination[i]
        if not chosen[code] or response[i] < low or response[i] >= high:
            continue
        column = (arrival[i] - begin) // width
        counts[column, place[i]] += 1
        by_combination[code] += 1
        sums[column, 0] += response[i]
        if queueing[i] == queueing[i]:
            sums[column, 1] += queueing[i]
        else:
            unknown[column] += 1
        if service[i] == service[i]:
            sums[column, 2] += service[i]
