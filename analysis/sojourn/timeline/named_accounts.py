"""Accounts of their own for waits whose cause the log shows, although it is neither a request nor a free worker."""

from __future__ import annotations

import numpy as np

from sojourn.model.arrays import Floats
from sojourn.timeline.pauses import overlap_with, pauses_of
from sojourn.timeline.suspicions import ABSENT, BOUND, HIDDEN, LIMIT, PAUSE, RESERVED, STARTED
from sojourn.timeline.turnaround import TICK
from sojourn.timeline.visit_arrays import Visits

BOUND_ACCOUNTS = (BOUND, RESERVED)
SUSPECT_ACCOUNTS = (BOUND, RESERVED, LIMIT, PAUSE, STARTED, ABSENT, HIDDEN)
"""All accounts of their own, by the name of the suspect that they are of."""


ACCOUNTS = {
    "imbalance": ("imbalance between backends", "while another backend had a free worker"),
    BOUND: (
        "bound to busy processes",
        "while another process of the same backend had a free worker: the processes have queues of their own",
    ),
    RESERVED: ("bound to reserved workers", "while a worker was free that serves other routes only"),
    LIMIT: ("held back by a limit", "while workers were free, behind a limit in front of them"),
    PAUSE: ("in pauses", "while all workers stood still"),
    STARTED: ("cold starts", "while a worker was started for the request"),
    ABSENT: ("absent workers", "because workers were absent: restarts, deploys or scaling"),
    HIDDEN: (
        "held by something else",
        "while workers were held by something that is not in this log: another proxy, jobs",
    ),
}
"""Account -> what the waiting was, and during or because of what it passed."""


def moved_from_dispatch(visits: Visits, others: dict[str, Floats]) -> None:
    """Move what limits, pauses and cold starts explain from dispatch to accounts of their own (seconds of each wait).

    The way to an idle backend, and ``TICK``, remain dispatch.
    """
    dispatch = others["dispatch"]
    for account in (LIMIT, PAUSE, STARTED):
        for code in visits.with_suspect(account):
            members = visits.at_backend[code]
            beyond = np.maximum(dispatch[members] - visits.holds[code].way - TICK, 0.0)
            if account == PAUSE:
                beyond = np.minimum(beyond, _paused(visits, code))
            others.setdefault(account, np.zeros(len(visits)))[members] = beyond
            dispatch[members] -= beyond


def _paused(visits: Visits, code: int) -> Floats:
    """Return how long each wait at a backend fell into pauses, s."""
    members = visits.at_backend[code]
    freed = members[~np.isnan(visits.busy_end[members])]
    pauses = pauses_of(
        visits.arrival[freed],
        visits.busy_start[freed],
        visits.evident_end[freed],
        int(visits.workers.count[code]),
    )
    return overlap_with(pauses, visits.arrival[members], visits.wait_end[members])
