"""The sweep that charges every instant of every wait to one account.

Events (a wait or a service begins or ends) are processed in the order of time. Each backend has running integrals,
which advance at its own events only:

    D(t)     seconds with a free worker at the backend
    M(t)     seconds without one, but with a free worker at another backend of the pool
    B_c(t)   seconds without a free worker in the pool, times the share of class c in service at the backend
    C(t)     the same seconds, times the requests waiting, divided by the requests in service at the backend

The wait of a request is the difference of D, M and B between its end and its begin; the seconds that a request caused
are the difference of C between the end and the begin of its service. Other backends enter through one integral per
pool: the seconds without a free worker in it. The cost of an event depends on the classes in service at one backend,
not on the size of the pool.

A backend's integrals restart at 0 whenever the queue is empty, so that sums keep their precision.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sojourn.model.arrays import Floats, Ints
from sojourn.model.compilation import compiled_if_installed, little

ROWS = 16  # of backends at which requests wait or are served, to begin with


class Swept(NamedTuple):
    """Seconds of n requests and m intervals.

    Attributes:
        dispatch, imbalance, blamed: per request; their sum is its wait.
        caused: of other requests' blamed time, per interval.
        others: of the last culprit classes, classes × n; parts of ``blamed``.
        matrix: windows × victims × culprits.
        rows: number of backends whose classes had space: of those at which requests waited or were served at once.
    """

    dispatch: Floats
    imbalance: Floats
    blamed: Floats
    caused: Floats
    others: Floats
    matrix: Floats
    rows: int


def accounts_of(
    wait_begin: Floats, wait_end: Floats, busy_begin: Floats, busy_end: Floats, backend: Ints,
    place: Ints,
    events: tuple[Ints, Ints, Ints, Ints], *,
    workers: Ints, pool: Ints, victim: Ints, culprit: Ints, window: Ints, victims: int, culprits: int, windows: int,
    others: int = 0,
) -> Swept:  # fmt: skip
    """Charge the waits of n requests to the m intervals in which workers are held; the first n may be those of each.

    Args:
        wait_begin: begin of each wait, s, n.
        wait_end: end of each wait, s, n; a negative wait is charged to dispatch with its sign.
        busy_begin: begin of each interval with a worker, s, m; NaN: unknown.
        busy_end: end of it, s, m; NaN: unknown.
        backend: backend of each request, n, index into ``workers`` and ``pool``.
        place: backend of each interval, m.
        events: the requests whose waits count, by their begin and by their end, and those whose services count, by
            their begin and by their end; every wait and service has an end that is not before its begin.
        workers: number of workers per backend.
        pool: upstream of each backend, from 0.
        victim: class of each request as a victim.
        culprit: class of each interval as a culprit, m.
        window: window of each wait in the matrix; -1: its wait does not count.
        victims: number of victim classes.
        culprits: number of culprit classes.
        windows: number of windows.
        others: number of the last culprit classes whose seconds are summed for each request, too.
    """
    dispatch, imbalance, blamed = (np.zeros(len(wait_begin)) for _ in range(3))
    caused = np.zeros(len(busy_begin))
    negative = (wait_end < wait_begin) & (window >= 0)
    dispatch[negative] = (wait_end - wait_begin)[negative]
    matrix, of_others = np.zeros((windows, victims, culprits)), np.zeros((others, len(wait_begin)))
    with little(len(wait_begin) * culprits):
        rows = _sweep(
            wait_begin, wait_end, busy_begin, busy_end, *events, backend, place, workers, pool, victim, culprit, window,
            dispatch, imbalance, blamed, caused, of_others, matrix, np.zeros_like(matrix),
        )  # fmt: skip
    return Swept(dispatch, imbalance, blamed, caused, of_others, matrix, int(rows))


@compiled_if_installed
def _instant(instants, order, place):  # type: ignore[no-untyped-def]
    """Return the instant at a place of an order; after the last one, infinity."""
    return instants[order[place]] if place < len(order) else math.inf


@compiled_if_installed
def _add(matrix, lost, w, v, c, value):  # type: ignore[no-untyped-def]
    """Add to a cell and keep what rounding lost: Kahan (1965) in the form of Neumaier (1974)."""
    before = matrix[w, v, c]
    after = before + value
    if abs(before) >= abs(value):
        lost[w, v, c] += (before - after) + value
    else:
        lost[w, v, c] += (value - after) + before
    matrix[w, v, c] = after


@compiled_if_installed
def _sweep(  # type: ignore[no-untyped-def]  # noqa: PLR0912, PLR0915 - one loop, inlined for its speed
    wait_begin, wait_end, busy_begin, busy_end, arrivals, wait_ends, begins, ends,
    backend, place, workers, pool, victim, culprit, window, dispatch, imbalance, blamed, caused, others, matrix, lost,
):  # fmt: skip
    backends = len(workers)
    pools = pool.max() + 1 if backends else 0
    classes = matrix.shape[2]
    own = classes - len(others)  # classes of requests
    members, full = np.zeros(pools, np.int64), np.zeros(pools, np.int64)
    for b in range(backends):
        members[pool[b]] += 1
    none_free, pool_at = np.zeros(pools), np.zeros(pools)  # the integral of each pool, and until when
    # Until when each backend's integrals go, and the integral of its pool by then.
    at, pool_before = np.zeros(backends), np.zeros(backends)
    depth, serving = np.zeros(backends, np.int64), np.zeros(backends, np.int64)
    # A backend has a row of these while a request waits or is served there; other backends need none.
    serving_of, share = np.zeros((ROWS, classes), np.int64), np.zeros((ROWS, classes))
    unused, rows_left = np.arange(ROWS), ROWS
    row_of = np.full(backends, -1, np.int64)
    own_free, others_free, all_busy = np.zeros(backends), np.zeros(backends), np.zeros(backends)
    blame = np.zeros(backends)
    # Of events at one instant, a wait of no length begins before it ends, and waits come before services.
    arrived, left, begun, done = 0, 0, 0, 0
    next_arrival, next_left = _instant(wait_begin, arrivals, 0), _instant(wait_end, wait_ends, 0)
    next_begun, next_done = _instant(busy_begin, begins, 0), _instant(busy_end, ends, 0)
    for _ in range(len(arrivals) + len(wait_ends) + len(begins) + len(ends)):
        if next_arrival <= next_left and next_arrival <= next_begun and next_arrival <= next_done:
            event, now, i = 0, next_arrival, arrivals[arrived]
            arrived += 1
            next_arrival = _instant(wait_begin, arrivals, arrived)
        elif next_left <= next_begun and next_left <= next_done:
            event, now, i = 1, next_left, wait_ends[left]
            left += 1
            next_left = _instant(wait_end, wait_ends, left)
        elif next_begun <= next_done:
            event, now, i = 2, next_begun, begins[begun]
            begun += 1
            next_begun = _instant(busy_begin, begins, begun)
        else:
            event, now, i = 3, next_done, ends[done]
            done += 1
            next_done = _instant(busy_end, ends, done)
        b = backend[i] if event < 2 else place[i]
        p = pool[b]
        if row_of[b] < 0:
            if rows_left == 0:
                count = len(serving_of)
                unused, rows_left = np.arange(count, 2 * count), count
                serving_of = np.concatenate((serving_of, np.zeros((count, classes), np.int64)))
                share = np.concatenate((share, np.zeros((count, classes))))
            rows_left -= 1
            row_of[b] = unused[rows_left]
        r = row_of[b]
        if full[p] == members[p]:
            none_free[p] += now - pool_at[p]
        pool_at[p] = now
        if depth[b] > 0:
            seconds = now - at[b]
            if serving[b] >= workers[b]:
                nowhere = none_free[p] - pool_before[b]
                others_free[b] += seconds - nowhere
                if nowhere > 0:
                    all_busy[b] += nowhere
                    each = nowhere / serving[b]
                    blame[b] += each * depth[b]
                    for c in range(classes):
                        if serving_of[r, c] > 0:
                            share[r, c] += each * serving_of[r, c]
            else:
                own_free[b] += seconds
        at[b] = now
        pool_before[b] = none_free[p]
        if event < 2:
            if event == 0 and depth[b] == 0:
                own_free[b] = others_free[b] = all_busy[b] = 0.0
                share[r, :] = 0.0
            sign = 1 if event else -1  # what the integrals are at the end of the wait, less what they are at its begin
            depth[b] -= sign
            dispatch[i] += sign * own_free[b]
            imbalance[i] += sign * others_free[b]
            blamed[i] += sign * all_busy[b]
            for c in range(own, classes):
                others[c - own, i] += sign * share[r, c]
            w = window[i]
            if w >= 0:
                for c in range(classes):
                    if share[r, c] != 0.0:
                        _add(matrix, lost, w, victim[i], c, sign * share[r, c])
        elif event == 2:
            if serving[b] == 0:
                blame[b] = 0.0
            serving[b] += 1
            serving_of[r, culprit[i]] += 1
            if serving[b] == workers[b]:
                full[p] += 1
            caused[i] = -blame[b]
        else:
            if serving[b] == workers[b]:
                full[p] -= 1
            serving[b] -= 1
            serving_of[r, culprit[i]] -= 1
            caused[i] += blame[b]
        if depth[b] == 0 and serving[b] == 0:
            if rows_left == len(unused):  # it is shorter than the rows after these were doubled
                unused = np.concatenate((unused, np.zeros_like(unused)))
            unused[rows_left] = r
            rows_left += 1
            row_of[b] = -1
    matrix += lost
    return len(serving_of)
