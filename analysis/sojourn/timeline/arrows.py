"""Arrows from culprits to victims: the request whose release of a worker let a waiting request start.

Blame charges each instant of a wait to all requests in service in equal parts. An arrow names one of them, the one
that the wait ended with: the request before it on the same worker, if it released the worker at the start of the
victim, give or take a turnaround. Abandoned requests name no worker: where the request before it on the worker ended
too early, a request without a worker that ended then at the same backend is the culprit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sojourn.model.arrays import Bools, Ints
from sojourn.timeline.turnaround import LONGEST
from sojourn.timeline.visits import Visits

LEAST_WAIT = 1_000  # µs: a shorter wait has no arrow, for it is within nginx's resolution
GAP = round(LONGEST * 1e6)  # µs, from the release to the start of the victim


@dataclass(frozen=True)
class VisitTimes:
    """When each visit waited and held a worker, µs, n each.

    Attributes:
        arrival, left: of the wait.
        begin, end: of the hold.
        lane: the lane of its worker; -1: it held none.
        is_assigned: whether that lane is assigned, because the worker is not in the log.
    """

    arrival: Ints
    left: Ints
    begin: Ints
    end: Ints
    lane: Ints
    is_assigned: Bools


def culprits_of(visits: Visits, times: VisitTimes, is_wait: Bools) -> Ints:
    """Return the request whose release each waiting request (``is_wait``) waited for; -1: none, or unknown.

    Each request is the culprit of one other at most.
    """
    one_at_a_time = ~np.isin(visits.backend, list(visits.workers.several_at_once))
    is_held = times.lane >= 0
    is_victim = is_wait & (times.left - times.arrival >= LEAST_WAIT) & one_at_a_time & is_held
    before = _before(times)
    culprit = np.where(is_victim & _fits(times, before), before, -1)
    # A worker in the log may have served a request that does not name it; any worker, one that names none.
    for victims, candidates in ((~times.is_assigned, times.is_assigned), (times.is_assigned, is_held)):
        others = np.flatnonzero(is_victim & victims & (culprit < 0))
        others = others[np.argsort(times.begin[others], kind="stable")]
        is_free = is_held & candidates
        is_free[culprit[culprit >= 0]] = False
        if len(others) and is_free.any():
            culprit[others] = _last_releases(visits, times, others, np.flatnonzero(is_free))
    return culprit


def _before(times: VisitTimes) -> Ints:
    """Return the request before each one in the lane of its worker; -1: none."""
    held = np.flatnonzero(times.lane >= 0)
    order = held[np.lexsort((times.begin[held], times.lane[held]))]
    before = np.full(len(times.lane), -1, np.int64)
    same = times.lane[order[1:]] == times.lane[order[:-1]]
    before[order[1:][same]] = order[:-1][same]
    return before


def _fits(times: VisitTimes, culprit: Ints) -> Bools:
    """Return whether each culprit held the worker during the wait and released it at the start of the victim."""
    held = (times.end[culprit] > times.arrival) & (times.begin[culprit] < times.left)
    return (culprit >= 0) & held & (times.begin - times.end[culprit] <= GAP)


def _last_releases(visits: Visits, times: VisitTimes, victims: Ints, candidates: Ints) -> Ints:
    """Return the candidate of the same backend that released its worker last before each victim began, or -1."""
    floor = min(int(times.end[candidates].min()), int(times.begin[victims].min()))
    span = max(int(times.end[candidates].max()), int(times.begin[victims].max())) - floor + 1
    keys = visits.backend[candidates].astype(np.int64) * span + times.end[candidates] - floor
    order = np.argsort(keys, kind="stable")
    at = visits.backend[victims].astype(np.int64) * span + times.begin[victims] - floor
    place = np.searchsorted(keys[order], at, "right") - 1
    last = np.where(place >= 0, candidates[order][np.maximum(place, 0)], -1)
    of_victim = np.full(len(visits), -1, np.int64)
    of_victim[victims] = np.where(visits.backend[last] == visits.backend[victims], last, -1)
    last = np.where(_fits(times, of_victim), of_victim, -1)[victims]
    # The first victim of each.
    is_first = np.zeros(len(victims), np.bool_)
    is_first[np.unique(last, return_index=True)[1]] = True
    return np.where(is_first, last, -1)
