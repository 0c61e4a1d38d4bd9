"""By what services are slower than usual, other than by the load: their worker, and the course of time."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from sojourn.model.arrays import Floats, Ints
from sojourn.timeline.classes import classes_of

NEIGHBOURS = 301  # requests whose median is the course of time
NARROW = 0.2  # between the quartiles, of the mean: the noise of the course of all would be most of what is left
MOVED = 1.35  # ratio of the 95 % and 5 % quantile of the course from which on it is removed
FAST, SLOW = 0.7, 1.4  # of the median: a worker that is faster or slower is of another speed
OF_A_WORKER = 100  # requests
MOST_WORKERS = 64


@dataclass(frozen=True)
class UsualSpeed:
    """Factors of services in the order of their starts; n of them.

    Attributes:
        worker: of the worker of each, 1 if it is as fast as usual.
        course: of the time of each, around 1.
        moved: whether the course changes by more than it does by chance.
        workers: name of each worker of another speed -> its factor.
    """

    worker: Floats
    course: Floats
    moved: bool
    workers: dict[str, float] = field(default_factory=dict)

    @property
    def factor(self) -> Floats:
        """Of the worker and, if it moves, of the time."""
        return self.worker * np.maximum(self.course, 1e-12) if self.moved else self.worker


def usual_speed(norm: Floats, route: Ints, worker: pl.Series | None) -> UsualSpeed:
    """Estimate the factors of services, relative to the mean of their route and in the order of their starts."""
    of_worker = np.ones(len(norm))
    other = {}
    if worker is not None and len(norm):
        codes, names = classes_of(worker)
        usual = float(np.median(norm))
        for code, name in enumerate(names) if len(names) <= MOST_WORKERS else ():
            own = codes == code
            if own.sum() >= OF_A_WORKER and usual > 0:
                ratio = float(np.median(norm[own])) / usual
                if ratio > 0 and not FAST < ratio < SLOW:
                    of_worker[own] = other[name] = ratio
    course = course_by_route(norm / of_worker, route)
    low, high = np.quantile(course, [0.05, 0.95]) if len(course) else (1.0, 1.0)
    return UsualSpeed(of_worker, course, bool(low > 0 and high > MOVED * low), other)


def relative(seconds: Floats, route: Ints) -> Floats:
    """Return services relative to the mean of their route."""
    mean = means(seconds, route)
    return np.divide(seconds, mean, out=np.ones_like(seconds), where=mean > 0)


def means(values: Floats, code: Ints) -> Floats:
    """Return for each value the mean of the values with its code."""
    count = np.bincount(code)
    return (np.bincount(code, values) / np.maximum(count, 1))[code]


def course_of(values: Floats) -> Floats:
    """Return the median of the neighbours of each value, computed at some places and interpolated."""
    n = len(values)
    if n <= NEIGHBOURS:
        return np.full(n, float(np.median(values)) if n else 1.0)
    firsts = np.unique(np.append(np.arange(0, n - NEIGHBOURS, NEIGHBOURS // 12), n - NEIGHBOURS))
    medians = np.median(np.lib.stride_tricks.sliding_window_view(values, NEIGHBOURS)[firsts], axis=1)
    return np.interp(np.arange(n), firsts + NEIGHBOURS // 2, medians)


def course_by_route(values: Floats, route: Ints) -> Floats:
    """Return the course of all values; of a route with nearly constant values, that of its own."""
    course = course_of(values)
    for code in range(int(route.max(initial=-1)) + 1):
        own = np.flatnonzero(route == code)
        low, high = np.quantile(values[own], [0.25, 0.75]) if len(own) else (0.0, math.inf)
        if high - low < NARROW:
            course[own] = course_of(values[own])
    return course
