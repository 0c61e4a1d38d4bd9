"""What the event loop keeps: a record for each request, slot, queue and event, and one of its own state."""

from __future__ import annotations

from collections import namedtuple

import numpy as np

FIFO, LIFO, ADAPTIVE_LIFO, CODEL, DEADLINE, SJF = range(6)
GIVEN, ROUND_ROBIN, LEAST_CONN, TWO_CHOICES, SHARED_QUEUE = range(5)
SERVED, TIMED_OUT_WAITING, TIMED_OUT_SERVED, DROPPED, REJECTED = range(5)
NONE = -1

Rules = namedtuple(
    "Rules",
    "discipline balancer timeout capacity retries backoff codel_target codel_interval lifo_threshold deadline_margin "
    "seed",
)
REQUEST = np.dtype(
    [
        ("arrival", "f8"),  # s; of one that follows another: when it came
        ("service", "f8"),
        ("think", "f8"),  # s after the one it follows; NaN: it comes by itself
        ("wait", "f8"),
        ("sojourn", "f8"),
        ("start", "f8"),
        ("first", "i8"),  # of those that follow it, or NONE
        ("following", "i8"),  # the next that follows the same as it does, or NONE
        ("backend", "i4"),  # "given": where it is sent; later where it was
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
        ("present", "i8"),  # whether the client is there
        ("ahead", "i8"),
        ("behind", "i8"),
        ("child", "i8"),  # in the heap of services
        ("earlier", "i8"),  # who gives up just before it
        ("later", "i8"),
    ],
    align=True,
)
QUEUE = np.dtype(
    [
        ("first_worker", "i8"),
        ("workers", "i8"),
        ("free", "i8"),
        ("free_from", "i8"),  # where in the ring of its free workers the one that has been free the longest stands
        ("waiting", "i8"),
        ("head", "i8"),
        ("tail", "i8"),
        ("above", "f8"),  # codel: when the wait will have been above the target for an interval; inf: it is not
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
        ("upcoming", "i8"),  # the next request that comes by itself
        ("turn", "i8"),
        ("ending", "i8"),  # services under way
        ("coming", "i8"),  # requests that are to come again, or after another
        ("empty", "i8"),  # a slot that was used, and with `behind` all of them
        ("unused", "i8"),  # the first slot that never was
        ("gives_up_first", "i8"),
        ("gives_up_last", "i8"),
        ("busy", "f8"),
        ("wasted", "f8"),
        ("ended", "f8"),
    ],
    align=True,
)
