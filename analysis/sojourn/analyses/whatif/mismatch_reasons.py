"""Why a replay of things as they are does not come out as it was measured."""

from __future__ import annotations

import numpy as np

from sojourn.analyses.whatif.workload import Workload
from sojourn.model.formatting import counted, printable
from sojourn.model.one_worker import SLACK, most_at_once
from sojourn.timeline.charge import accounts, services_of
from sojourn.timeline.visits import FROM_OPTION

MANY = 0.01  # share of requests
MUCH = 0.30  # share of the wait
MOST = 0.5  # share of requests


def suspicion(workload: Workload, error: float) -> str:
    """The likeliest reason, in words; ``error``: of the mean, replayed / measured - 1."""
    found = workload.found
    if several := _several_at_once(workload):
        return several
    if workload.imputed > MANY * len(workload):
        return (
            f"{workload.imputed:,} of {counted(len(workload), 'request')} {'does' if workload.imputed == 1 else 'do'} "
            "not say how long they held a worker; the app's spans (--spans) would"
        )
    known = ~np.isnan(found.wait_end)
    waited = float(found.wait[known].sum())
    if known.all() and waited > 0:
        idle = float(accounts(found, services_of(found)).dispatch.sum()) / waited
        if idle > MUCH:
            return (
                f"{idle:.0%} of the waiting passed while the request's own backend had a free worker; something else "
                "held requests back (a limit of connections, a lock, a pause of the whole process), or there are fewer "
                "workers than it seems: give --workers"
            )
    if error < 0:
        return (
            "requests waited longer than these services explain; workers were held by something that this log does not "
            "show (another proxy, another service, jobs), or longer than until the headers: give --spans"
        )
    return "requests waited less than so few workers allow; there are more than it seems: give --workers"


def _several_at_once(workload: Workload) -> str:
    """Say where more requests were in service at once than there are workers; "" where there is no such backend."""
    found = workload.found
    for code, name in enumerate(found.backends):
        here = found.at_backend[code]
        here = here[~np.isnan(found.busy_end[here]) & ~np.isnan(found.busy_start[here])]
        slack = found.workers.slack[code] if found.workers.slack else SLACK
        at_once = most_at_once(found.busy_start[here], found.busy_end[here], slack)
        count = int(found.workers.count[code])
        if at_once > count:
            where = printable(name or "a backend", 60)
            several = (
                f"up to {at_once} requests were in service at once at {where}, which has {counted(count, 'worker')} "
            )
            origin = "by --workers" if found.workers.source[code] == FROM_OPTION else "by its worker values"
            if _by_durations(workload) > MOST:
                return (
                    f"{several}{origin}; no stamp reached the app, so durations alone say when each service began, too "
                    "coarsely for a replay: have nginx stamp the requests (sojourn doctor prints the lines)"
                )
            if found.workers.source[code] == FROM_OPTION:
                return f"{several}{origin}"
            return (
                f"{several}{origin}; an async or threaded app serves several in one worker: give "
                "--workers, the requests that it serves at once"
            )
    return ""


def _by_durations(workload: Workload) -> float:
    """Share of the requests whose queueing delay is known by durations alone."""
    frame = workload.found.frame
    if "queue_source" not in frame.columns or frame.is_empty():
        return 0.0
    return float((frame["queue_source"] == "duration").sum() / len(frame))
