"""Times and workers that are slower than usual, whatever the load: a noisy neighbour, a cold cache, a slow host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from sojourn.model.arrays import Floats
from sojourn.model.formatting import counted, iso, printable
from sojourn.timeline.contention.usual_speed import UsualSpeed

SLOW = 1.3  # of the median course
FEWEST = 60  # requests of a slow stretch
AT_FIRST = 0.02  # share of the requests: a stretch that begins within it begins with the log
MOST_STRETCHES = 3  # stretches of a backend that are named
TIME, START, WORKER = "time", "start", "worker"


@dataclass(frozen=True)
class Course:
    """Something that is slower than usual at a backend.

    Attributes:
        upstream: its address.
        kind: ``time``, ``start`` (from the first requests on) or ``worker``.
        factor: services / usual ones.
        begin, end: of a time; None for a worker.
        worker: its name; None for a time.
    """

    upstream: str | None
    kind: str
    factor: float
    begin: datetime | None = None
    end: datetime | None = None
    worker: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        instants = {name: value and iso(value) for name, value in (("begin", self.begin), ("end", self.end))}
        return {**self.__dict__, **instants}


def courses_of(upstream: str | None, base: datetime, begin: Floats, usual: UsualSpeed) -> list[Course]:
    """Return what is slower than usual at a backend: workers, and stretches of time; ``begin``: of each service, s."""
    courses = [Course(upstream, WORKER, factor, worker=name) for name, factor in usual.workers.items()]
    if not usual.moved:
        return courses
    ratio = usual.course / max(float(np.median(usual.course)), 1e-12)
    slow = np.concatenate([[False], ratio > SLOW, [False]])
    edges = np.flatnonzero(slow[1:] != slow[:-1])
    for first, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        if end - first < FEWEST:
            continue
        factor = float(np.quantile(ratio[first:end], 0.9))
        # The course is a median of neighbours: half way up is where a step was.
        inside = first + np.flatnonzero(ratio[first:end] > (1 + factor) / 2)
        kind = START if first <= AT_FIRST * len(begin) else TIME
        low, high = (int(inside[0]), int(inside[-1])) if kind == TIME else (0, end - 1)
        instants = [base + timedelta(seconds=float(begin[place])) for place in (low, high)]
        courses.append(Course(upstream, kind, factor, instants[0], instants[1]))
    return courses


def sentences_of(courses: Sequence[Course]) -> list[str]:
    """Return a sentence for each worker, and one for the slow times of each backend."""
    sentences = []
    for upstream in dict.fromkeys(each.upstream for each in courses):
        name = printable(upstream or "a backend", 60)
        own = [each for each in courses if each.upstream == upstream]
        sentences += [
            f"Worker {printable(each.worker or '', 60)} of {name} takes {each.factor:.2g} × as long as the others."
            for each in own
            if each.kind == WORKER
        ]
        times = sorted((each for each in own if each.kind != WORKER), key=lambda each: -each.factor)
        if not times:
            continue
        stretches = [_stretch(each) for each in times[:MOST_STRETCHES]]
        more = f", and at {counted(len(times) - MOST_STRETCHES, 'other time')}" if len(times) > MOST_STRETCHES else ""
        sentences.append(f"Services of {name} took {', '.join(stretches)}{more}, whatever the load was.")
    return sentences


def _stretch(course: Course) -> str:
    assert course.begin is not None  # noqa: S101 - of a time
    assert course.end is not None  # noqa: S101
    until = f"{course.end:%H:%M:%S}"
    if course.kind == START:
        return f"up to {course.factor:.2g} × as long at first, until {until} (a cold cache, or a start)"
    return f"{course.factor:.2g} × as long from {course.begin:%H:%M:%S} to {until}"
