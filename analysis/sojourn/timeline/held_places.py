"""Places of workers that no request of the log holds while requests wait: of absent workers, and for unseen load."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sojourn.model.arrays import Floats, Ints
from sojourn.timeline.classes import classes_of
from sojourn.timeline.steps import Steps
from sojourn.timeline.turnaround import TICK
from sojourn.timeline.visit_arrays import Visits
from sojourn.timeline.worker_evidence import with_edges

Intervals = tuple[Floats, Floats, Ints]


def absences(visits: Visits, codes: Sequence[int], _: Intervals | None = None) -> Intervals:
    """Return the intervals in which workers of some backends are absent: begin and end (s), and place.

    A worker is present from its first start to its last release. So many are absent as are missing to the largest
    number present at once.
    """
    parts = []
    for code in codes:
        members = visits.at_backend[code]
        members = members[~np.isnan(visits.busy_end[members])]
        worker, names = classes_of(visits.column_at("worker", members))
        first, last = np.full(len(names), np.inf), np.full(len(names), -np.inf)
        np.minimum.at(first, worker, visits.busy_start[members])
        np.maximum.at(last, worker, visits.busy_end[members])
        longest = float((visits.busy_end[members] - visits.busy_start[members]).max())
        first, last = with_edges(first, last, longest)
        place = visits.places.code[members]
        of_worker = np.zeros(len(names), np.int64)
        of_worker[worker] = place
        for each in np.unique(of_worker):
            own = of_worker == each
            present = Steps.of(first[own], last[own])
            missing = np.maximum(int(visits.places.workers[each]) - present.level, 0)
            begin, end = _intervals(present.at, missing)
            # Before the first start of all, those that come later are absent, too.
            early = int(visits.places.workers[each])
            begin = np.append(begin, np.full(early, float(visits.arrival[members].min())))
            end = np.append(end, np.full(early, present.at[0]))
            parts.append((begin, end, np.full(len(begin), each)))
    return _joined(parts)


def unseen(visits: Visits, codes: Sequence[int], held: Intervals) -> Intervals:
    """Return the intervals in which something outside the log holds workers: begin and end (s), and place.

    While a request waits, all workers are held; those that no request of the log holds are held by something else.
    ``held``: what holds places by the log.
    """
    begin, end, place = held
    parts = []
    for code in codes:
        members = visits.at_backend[code]
        at = visits.places.code[members]
        for each in np.unique(at):
            own = members[at == each]
            waiting = Steps.of(visits.arrival[own] + TICK, visits.wait_end[own])
            busy = Steps.of(begin[place == each], end[place == each])
            instants = np.unique(np.concatenate([waiting.at, busy.at]))
            missing = np.maximum(int(visits.places.workers[each]) - _at(busy, instants), 0)
            since, until = _intervals(instants, np.where(_at(waiting, instants) > 0, missing, 0))
            parts.append((since, until, np.full(len(since), each)))
    return _joined(parts)


def _at(steps: Steps, instants: Floats) -> Ints:
    """Return the level from each instant on."""
    return np.append(0, steps.level)[np.searchsorted(steps.at, instants, "right")]


def _intervals(at: Floats, level: Ints) -> tuple[Floats, Floats]:
    """Return intervals of which ``level[k]`` hold from ``at[k]`` to ``at[k + 1]``; the last level is not counted."""
    change = np.diff(np.append(level[:-1], 0), prepend=0)
    return np.repeat(at, np.maximum(change, 0)), np.repeat(at, np.maximum(-change, 0))


def _joined(parts: Sequence[Intervals]) -> Intervals:
    begin, end, place = (np.concatenate(side) for side in zip(*parts, strict=True))
    return begin, end, place
