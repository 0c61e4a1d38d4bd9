"""Records of the simulation kernel: request, slot, queue, event, and the kernel's state.

A request is as long as a line of the processor's cache, so that every pass over one of its fields costs as much as a
pass over all of them.
"""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import math
from collections import namedtuple

import numpy as np

from sojourn.model.compilation import compiled

FIFO, LIFO, ADAPTIVE_LIFO, CODEL, DEADLINE, SJF = range(6)
GIVEN, ROUND_ROBIN, LEAST_CONN, TWO_CHOICES, SHARED_QUEUE = range(5)
NONE = -1

Rules = namedtuple(
    "Rules",
    "discipline balancer timeout capacity retries backoff codel_target codel_interval lifo_threshold deadline_margin "
    "seed",
)
REQUEST = np.dtype(
    [
        ("arrival", "f8"),  # s; filled in for a request that follows another
        ("service", "f8"),
        ("think", "f8"),  # s after the request it follows; NaN: it follows none
        ("wait", "f8"),
        ("sojourn", "f8"),
        ("start", "f8"),
        ("first", "i8"),  # first request that follows it, or NONE
        ("following", "i8"),  # next request that follows the same one, or NONE
        ("backend", "i4"),  # with "given", its destination; after an attempt, the chosen backend
        ("attempts", "i4"),
        ("status", "i4"),
    ],
    align=True,
)
OUTCOMES = ("arrival", "backend", "wait", "sojourn", "start", "status", "attempts")  # of a request
SLOT = np.dtype(
    [
        ("arrived", "f8"),
        ("service", "f8"),
        ("request", "i8"),
        ("attempt", "i8"),
        ("backend", "i8"),
        ("worker", "i8"),  # NONE: it waits
        ("present", "i8"),  # whether the client still waits for the answer
        ("ahead", "i8"),
        ("behind", "i8"),
        ("child", "i8"),  # in the heap of services
        ("earlier", "i8"),  # slot whose time-out precedes this one
        ("later", "i8"),
    ],
    align=True,
)
QUEUE = np.dtype(
    [
        ("first_worker", "i8"),
        ("workers", "i8"),
        ("free", "i8"),
        ("free_from", "i8"),  # position in the ring of its free workers of the one that has been free the longest
        ("waiting", "i8"),
        ("head", "i8"),
        ("tail", "i8"),
        ("above", "f8"),  # codel: when the wait will have exceeded the target for an interval; inf: it does not
        ("dropping", "i8"),
        ("drop_next", "f8"),
        ("drops", "i8"),
        ("drops_at_begin", "i8"),
    ],
    align=True,
)
EVENT = np.dtype([("time", "f8"), ("request", "i8"), ("slot", "i8")], align=True)
STATE = np.dtype(
    [
        ("upcoming", "i8"),  # the next request that follows no other
        ("turn", "i8"),
        ("ending", "i8"),  # number of services in progress
        ("coming", "i8"),  # number of pending retries and followers
        ("empty", "i8"),  # head of the list of released slots, linked by `behind`
        ("unused", "i8"),  # the first slot that was never used
        ("gives_up_first", "i8"),
        ("gives_up_last", "i8"),
        ("busy", "f8"),
        ("wasted", "f8"),
        ("ended", "f8"),
    ],
    align=True,
)


@compiled
def fill(requests, arrival, service, destination, first, following, think):
    """Fill in the records of n requests before a replay; arrays of n, or empty where a rule does not need them.

    ``first``: the first follower of each; ``following``: the next follower of the same request; ``think``: s.
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
