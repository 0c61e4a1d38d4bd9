"""The sums of the chain: blamed seconds of the periods of one backend, divided by class.

The formulas are those of ``chain``. One pass over the requests of a period, with a counter per class: only the classes
that are there matter, as one that is absent can only have brought less work than usual.
"""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import math

import numpy as np

from sojourn.model.compilation import compiled_if_installed

LEAST = 1e-6  # s of work: sums of floats, so less explains nothing


@compiled_if_installed
def periods_of(backend, arrival, wait_end):
    """Return the period of each request that waits (-1: it does not), and the first request of each period.

    Args:
        backend: of each request, ascending.
        arrival: of each request, s, in order at each backend.
        wait_end: end of its wait, s.
    """
    of = np.full(len(arrival), -1, np.int64)
    first = np.empty(len(arrival), np.int64)
    periods, until, at = 0, -math.inf, -1
    for i in range(len(arrival)):
        if not wait_end[i] > arrival[i]:
            continue
        if backend[i] != at or arrival[i] > until:
            first[periods] = i
            periods += 1
            until = -math.inf
            at = backend[i]
        of[i] = periods - 1
        until = max(until, wait_end[i])
    return of, first[:periods]


@compiled_if_installed
def explained_each(backend, arrival, begin, end, kind, at, start, finish, blamed, classes, span):
    """Divide the blamed seconds of the periods of each of several backends, as ``explained`` does for one.

    Args:
        backend: of each request, ascending.
        arrival: of each request, s, in order at each backend.
        begin: begin of its service, s.
        end: end of its service, s; NaN: unknown.
        kind: its class.
        at: the backend of each period, ascending.
        start: first arrival of a request that waits in it, s.
        finish: end of its last wait, s.
        blamed: its blamed seconds.
        classes: number of classes.
        span: length of the log, s.

    Returns:
        As ``explained``: the sums over the backends, and the values of each period.
    """
    filled, held, unexplained = np.zeros(classes), np.zeros(classes), 0.0
    onset, burst = np.zeros(len(start)), np.zeros(len(start))
    i = p = 0
    while p < len(start):
        while backend[i] < at[p]:
            i += 1
        after, until = i, p
        while after < len(backend) and backend[after] == at[p]:
            after += 1
        while until < len(start) and at[until] == at[p]:
            until += 1
        by_arrivals, by_services, neither, onset[p:until], burst[p:until] = explained(
            arrival[i:after], begin[i:after], end[i:after], kind[i:after], start[p:until], finish[p:until],
            blamed[p:until], classes, span,
        )  # fmt: skip
        filled += by_arrivals
        held += by_services
        unexplained += neither
        i, p = after, until
    return filled, held, unexplained, onset, burst


@compiled_if_installed
def explained(arrival, begin, end, kind, start, finish, blamed, classes, span):
    """Divide the blamed seconds of periods, which are in order and apart from one another.

    Args:
        arrival: of each request of the backend, s, in order.
        begin: begin of its service, s.
        end: end of its service, s; NaN: unknown.
        kind: its class.
        start: first arrival of a request that waits in the period, s, per period.
        finish: end of its last wait, s.
        blamed: its blamed seconds.
        classes: number of classes.
        span: length of the log, s.

    Returns:
        filled and held (s, per class), seconds that neither explains, onset (s) and burst per period.
    """
    requests, periods = len(arrival), len(start)
    count, usual = np.zeros(classes), np.zeros(classes)
    served = np.zeros(classes)
    for i in range(requests):
        count[kind[i]] += 1
        if not math.isnan(end[i]):
            served[kind[i]] += 1
            usual[kind[i]] += end[i] - begin[i]
    for c in range(classes):
        usual[c] /= max(served[c], 1)

    onset, first, members = _in_service(arrival, begin, end, start)
    filled, held, unexplained = np.zeros(classes), np.zeros(classes), 0.0
    burst = np.zeros(periods)
    number, work, present = np.zeros(classes), np.zeros(classes), np.zeros(classes, np.int64)
    i = 0
    for p in range(periods):
        length = finish[p] - onset[p]
        while i < requests and arrival[i] < start[p]:
            i += 1
        begun = i
        while i < requests and arrival[i] <= finish[p]:
            i += 1
        burst[p] = (i - begun) / (requests / span * length)
        there = 0
        for place in range(begun - i, first[p + 1] - first[p]):
            # Arrivals of the period, then what was in service when it began.
            j = i + place if place < 0 else members[first[p] + place]
            c = kind[j]
            if number[c] == 0:
                present[there] = c
                there += 1
            number[c] += 1
            work[c] += usual[c] if math.isnan(end[j]) else end[j] - begin[j]
        total = 0.0
        for k in range(there):
            c = present[k]
            by_arrivals = max((number[c] - count[c] / span * (length + usual[c])) * usual[c], 0.0)
            by_service = max(work[c] - number[c] * usual[c], 0.0)
            number[c], work[c] = by_arrivals, by_service
            total += by_arrivals + by_service
        share = blamed[p] / total if total > LEAST else 0.0
        unexplained += 0.0 if total > LEAST else blamed[p]
        for k in range(there):
            c = present[k]
            filled[c] += share * number[c]
            held[c] += share * work[c]
            number[c] = work[c] = 0.0
    return filled, held, unexplained, onset, burst


@compiled_if_installed
def _in_service(arrival, begin, end, start):
    """Return when the last of the requests in service at the start of each period began, and these requests.

    A long service may overlap the start of several periods. Those of period p are ``members[first[p] : first[p + 1]]``;
    without any, the period itself is the onset.
    """
    periods = len(start)
    onset = np.full(periods, -math.inf)
    low = np.searchsorted(start, begin)
    first = np.zeros(periods + 2, np.int64)
    for i in range(len(arrival)):
        p = low[i]
        while p < periods and start[p] < end[i]:
            if arrival[i] < start[p]:
                first[p + 2] += 1
                onset[p] = max(onset[p], begin[i])
            p += 1
    for p in range(periods):
        first[p + 2] += first[p + 1]
        if onset[p] == -math.inf:
            onset[p] = start[p]
    members = np.zeros(first[periods + 1], np.int64)
    for i in range(len(arrival)):
        p = low[i]
        while p < periods and start[p] < end[i]:
            if arrival[i] < start[p]:
                members[first[p + 1]] = i
                first[p + 1] += 1
            p += 1
    return onset, first, members
