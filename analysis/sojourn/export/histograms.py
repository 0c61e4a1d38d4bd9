"""Histograms of many groups at once: classic buckets, exponential (native) buckets, sums and exemplars."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sojourn.export.metrics import NATIVE_SCHEMA
from sojourn.model.arrays import Floats, Ints
from sojourn.model.frame import HALF_MICROSECOND

ZERO = 1e-5  # s; the zero bucket of a native histogram holds values up to this, with either sign
LARGEST = 1e5  # s; larger values count in the last native bucket
LONGEST_TRACE = 120  # characters of a trace id in an exemplar, whose labels have 128 in OpenMetrics
PER_OCTAVE = 1 << NATIVE_SCHEMA
FIRST, LAST = (math.ceil(math.log2(value) * PER_OCTAVE) for value in (ZERO, LARGEST))
"""Index of the first and the last native bucket: bucket i holds values in (2^((i-1)/8), 2^(i/8)]."""


@dataclass(frozen=True)
class Exemplar:
    """A request in a bucket: its value (s), its trace id, and its end (unix s)."""

    value: float
    trace_id: str
    time: float


@dataclass(frozen=True)
class Histogram:
    """One histogram of one group.

    Attributes:
        counts: per classic bucket, not cumulated; the last one is +Inf.
        sum: of the values that are not negative, s.
        zero: values in the native zero bucket.
        positive, negative: native bucket index -> count.
        exemplars: classic bucket -> a recent request in it.
    """

    counts: Ints
    sum: float
    zero: int
    positive: dict[int, int]
    negative: dict[int, int]
    exemplars: dict[int, Exemplar]

    @property
    def count(self) -> int:
        """The number of values."""
        return int(self.counts.sum())


class Histograms:
    """One metric's histograms, by group number.

    Args:
        bounds: upper bounds of the classic buckets, s, ascending, without +Inf.
    """

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = np.asarray(bounds, np.float64)
        self._counts = np.zeros((0, len(bounds) + 1), np.int64)
        self._sums = np.zeros(0)
        self._zeros = np.zeros(0, np.int64)
        self._native = [np.zeros((0, LAST - FIRST + 1), np.int32) for _ in range(2)]  # positive, negative
        self._exemplars: dict[int, dict[int, Exemplar]] = {}

    def add(self, group: Ints, value: Floats, trace_id: Sequence[str | None], time: Floats) -> None:
        """Add values.

        Args:
            group: number of each value's group, from 0.
            value: s, as many.
            trace_id: of its request, as many; None, empty or longer than ``LONGEST_TRACE``: no exemplar.
            time: its end, unix s, as many.
        """
        if not len(value):
            return
        self._grow(int(group.max()) + 1)
        # Durations are whole microseconds, whatever the rounding of sums.
        bucket = np.searchsorted(self.bounds + HALF_MICROSECOND, value, side="left")
        np.add.at(self._counts, (group, bucket), 1)
        self._sums += np.bincount(group, np.maximum(value, 0.0), len(self._sums))
        size = np.abs(value)
        small = size <= ZERO
        self._zeros += np.bincount(group[small], minlength=len(self._zeros))
        with np.errstate(divide="ignore"):
            index = np.clip(np.ceil(np.log2(size) * PER_OCTAVE), FIRST, LAST).astype(np.int64) - FIRST
        for native, chosen in zip(self._native, (value > ZERO, value < -ZERO), strict=True):
            if chosen.any():
                np.add.at(native, (group[chosen], index[chosen]), 1)
        # The last request of each bucket.
        width = len(self.bounds) + 1
        cells, last = np.unique((group * width + bucket)[::-1], return_index=True)
        for cell, place in zip(cells.tolist(), (len(value) - 1 - last).tolist(), strict=True):
            if (trace := trace_id[place]) and len(trace) <= LONGEST_TRACE:
                exemplar = Exemplar(float(value[place]), trace, float(time[place]))
                self._exemplars.setdefault(cell // width, {})[cell % width] = exemplar

    def each(self) -> Iterator[tuple[int, Histogram]]:
        """Yield the number of each group that has a value, and its histogram."""
        for group in np.flatnonzero(self._counts.sum(axis=1)).tolist():
            positive, negative = (_sparse(native[group]) for native in self._native)
            yield (
                group,
                Histogram(
                    self._counts[group].copy(), float(self._sums[group]), int(self._zeros[group]), positive, negative,
                    dict(self._exemplars.get(group, {})),
                ),
            )  # fmt: skip

    def _grow(self, groups: int) -> None:
        if groups <= len(self._sums):
            return
        more = max(groups, 2 * len(self._sums)) - len(self._sums)
        self._counts, self._sums, self._zeros = (_longer(a, more) for a in (self._counts, self._sums, self._zeros))
        self._native = [_longer(native, more) for native in self._native]


def _longer(array: npt.NDArray[Any], more: int) -> npt.NDArray[Any]:
    return np.concatenate([array, np.zeros((more, *array.shape[1:]), array.dtype)])


def _sparse(row: npt.NDArray[np.int32]) -> dict[int, int]:
    used = np.flatnonzero(row)
    return dict(zip((used + FIRST).tolist(), row[used].tolist(), strict=True))
