"""Requests as records of the simulation kernel, and their outcomes as arrays: one pass each.

A record is as long as a line of the processor's cache, so that every pass over one of its fields costs as much as a
pass over all of them.
"""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import math

import numpy as np

from sojourn.model.compilation import compiled
from sojourn.queueing.records import NONE


@compiled
def fill(requests, arrival, service, destination, first, following, think):
    """Fill in the records of n requests before a replay.

    Args:
        requests: n of REQUEST.
        arrival: s, n.
        service: s, n.
        destination: n, backends; empty: the balancer chooses.
        first: n, the first follower of each; empty: no request follows another.
        following: n, the next follower of the same request; empty as well.
        think: n, s; empty as well.
    """
    for i in range(len(requests)):
        record = requests[i]
        record.arrival, record.service = arrival[i], service[i]
        record.wait, record.sojourn, record.start = 0.0, 0.0, math.nan
        record.backend = destination[i] if len(destination) else NONE
        record.attempts, record.status = 0, NONE
        if len(first):
            record.first, record.following, record.think = first[i], following[i], think[i]
        else:
            record.first, record.following, record.think = NONE, NONE, math.nan


@compiled
def outcomes(requests):
    """Return arrival, backend, wait, sojourn, start, status and attempts of requests after a replay."""
    n = len(requests)
    arrival, wait, sojourn, start = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    backend, attempts, status = np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.int8)
    for i in range(n):
        record = requests[i]
        arrival[i], wait[i], sojourn[i], start[i] = record.arrival, record.wait, record.sojourn, record.start
        backend[i], attempts[i], status[i] = record.backend, record.attempts, record.status
    return arrival, backend, wait, sojourn, start, status, attempts
