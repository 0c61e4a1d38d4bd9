"""The workload inside apps without a limit of requests: what they wait for, or are slowed by, after their start.

Such an app starts a request when it arrives. What its requests wait for is inside: one of a few places, as a pool of
connections, or the processors (``sharing``). The replay begins at the app's start; the time before keeps its measured
value.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sojourn.analyses.whatif.workload import Workload
from sojourn.model.formatting import duration, printable
from sojourn.model.one_worker import most_at_once
from sojourn.timeline.contention.independence import service_ends

NO_LIMIT = 4  # times the most requests at a time
MOST_WAIT, SHORTEST = 0.05, 0.002  # share of the response, and s: with a longer mean wait, something limits the starts


def limited_elsewhere(workload: Workload) -> str | None:
    """Return that requests wait for the start of an app that serves several at once, as a clause; None if not."""
    for code in sorted(workload.visits.workers.several_at_once):
        rows = workload.visits.at_backend[code]
        wait = float(np.nanmean(workload.wait[rows] - np.minimum(workload.way[rows], SHORTEST)))
        if wait > max(MOST_WAIT * float(np.nanmean(workload.response[rows])), SHORTEST):
            name = printable(workload.visits.backends[code] or "a backend", 60)
            return (
                f"{name} serves several requests at once in one worker, and yet requests wait {duration(wait)} for "
                "their start, on average: give --workers, the number of requests that it serves at once, if that is "
                "limited"
            )
    return None


def inside_of(workload: Workload) -> Workload:
    """Return the workload from the app's start on, at backends without a limit of requests."""
    visits = workload.visits
    unlimited = visits.workers.several_at_once
    if not unlimited:
        return workload
    end = service_ends(visits)
    inside = np.isin(visits.backend, list(unlimited)) & ~np.isnan(visits.busy_start) & ~np.isnan(end)
    arrival = np.where(inside, visits.busy_start, visits.arrival)
    moved = arrival - visits.arrival
    services = np.where(inside, end - visits.busy_start, workload.services)
    rest = np.where(inside, workload.response - (end - visits.busy_start), workload.rest)
    phases = visits.phases
    count = visits.workers.count.copy()
    for code in unlimited:
        rows = visits.at_backend[code]
        rows = rows[inside[rows]]
        count[code] = NO_LIMIT * max(most_at_once(visits.busy_start[rows], end[rows], 0.0), 1)
    changed = replace(
        workload,
        visits=replace(
            visits,
            arrival=arrival,
            wait_end=np.where(inside, arrival, visits.wait_end),
            busy_end=np.where(inside, end, visits.busy_end),
            workers=replace(visits.workers, count=count, measure=None),
            phases=None if phases is None else replace(phases, occupied=np.where(inside, arrival, phases.occupied)),
        ),
        services=services,
        head=np.where(inside, services, workload.head),
        before=np.where(inside, workload.before + moved, workload.before),
        way=np.where(inside, 0.0, workload.way),
        rest=rest,
        wait=np.where(inside, 0.0, workload.wait),
        absence=np.where(inside, 0.0, workload.absence),
        read=np.where(inside, 0.0, workload.read),
        inside=unlimited,
    )
    return changed.in_order(arrival, np.argsort(arrival, kind="stable"))
