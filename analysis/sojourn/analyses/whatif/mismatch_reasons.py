"""Explain why a replay of the recorded configuration does not match the measurements."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sojourn.analyses.whatif.workload import Workload
from sojourn.model.arrays import Floats
from sojourn.model.formatting import counted, duration, printable
from sojourn.model.one_worker import SLACK, most_of_each
from sojourn.timeline.blocks import comparable
from sojourn.timeline.charge import DISPATCH, IMBALANCE, accounts
from sojourn.timeline.contention.resources import Contention
from sojourn.timeline.free_workers import MUCH, explanation, looked_free
from sojourn.timeline.named_accounts import ACCOUNTS
from sojourn.timeline.services import Services, services_of
from sojourn.timeline.suspicions import HIDDEN, PAUSE, STARTED
from sojourn.timeline.visits import FROM_INFERENCE, FROM_OPTION
from sojourn.timeline.worker_evidence import AT_ONCE

MANY = 0.01  # share of requests
OUT_OF_ORDER = 0.02  # share of requests
MOST = 0.5  # share of requests
FEWEST, LATER, SHORTEST = 30, 3.0, 0.005  # requests; times the usual wait, and s: a start that is slowed
MOST_UNKNOWN = 0.1  # share of requests without a service time: with more of them the rest says little


def mismatch_reason(workload: Workload, error: float) -> str:
    """Return the most likely reason as a clause; ``error``: of the mean, replayed / measured - 1."""
    visits = workload.visits
    several = _several_at_once(workload)
    if several and workload.imputed <= MOST_UNKNOWN * len(workload):
        return several
    if workload.imputed > MANY * len(workload):
        return (
            f"the service time of {workload.imputed:,} of {counted(len(workload), 'request')} is unknown; the app's "
            "spans (--spans) contain it"
        )
    started = ~np.isnan(visits.wait_end)
    waited = float(visits.wait[started].sum())
    if started.all() and waited > 0:
        services = services_of(visits)
        others = accounts(visits, services).others
        if reason := _largest_account(others, waited) or _free_or_disordered(workload, services, others, waited):
            return reason
    if error < 0:
        return (
            "requests waited longer than these service times explain; workers were held by something that is not in "
            "this log (another proxy, another service, jobs), or longer than until the headers: give --spans"
        )
    return "requests waited less than is possible with these workers; there are more than it seems: give --workers"


def unreplayed(workload: Workload) -> str | None:
    """Return what much of the waiting was if no replay contains it, whatever its error is, as a clause; or None."""
    visits = workload.visits
    if not any(visits.with_suspect(kind) for kind in (PAUSE, STARTED, HIDDEN)):
        return None
    others = accounts(visits, services_of(visits)).others
    waited = float(np.nansum(np.maximum(visits.wait, 0.0)))
    causes = {name: seconds for name, seconds in others.items() if name in (PAUSE, STARTED, HIDDEN)}
    return _largest_account(causes, waited) or None


def accepting_is_slowed(workload: Workload, contention: Contention | None) -> str | None:
    """Return that requests start later while others are in service, although workers are free, as a clause; or None.

    So it is where the program that accepts requests needs what their services share, as under an interpreter's lock.
    """
    visits = workload.visits
    for resource in contention.resources if contention is not None and contention.explains else ():
        for code in resource.backends if resource.is_shared else ():
            rows = visits.at_backend[code]
            rows = rows[~np.isnan(visits.busy_start[rows]) & ~np.isnan(visits.busy_end[rows])]
            arrival = visits.arrival[rows]
            begun, ended = np.sort(visits.busy_start[rows]), np.sort(visits.busy_end[rows])
            present = np.searchsorted(np.sort(arrival), arrival) - np.searchsorted(ended, arrival, "right")
            in_service = np.searchsorted(begun, arrival) - np.searchsorted(ended, arrival, "right")
            free = present < visits.workers.count[code]
            alone, beside = visits.wait[rows[free & (in_service <= 0)]], visits.wait[rows[free & (in_service > 0)]]
            if min(len(alone), len(beside)) < FEWEST:
                continue
            usual, slowed = float(alone.mean()), float(beside.mean())
            if slowed > max(LATER * usual, SHORTEST):
                return (
                    f"requests start {duration(slowed)} after they arrive if others are in service, and "
                    f"{duration(usual)} if not, although workers are free: to accept them needs what services share "
                    "(an interpreter's lock), which a replay does not contain"
                )
    return None


def _largest_account(others: Mapping[str, Floats], waited: float) -> str:
    """Return what much of the waiting was, if the log shows a cause other than requests, as a clause; "" if not."""
    seconds = {name: float(others[name].sum()) for name in ACCOUNTS if name in others and name != IMBALANCE}
    largest = max(seconds, key=lambda name: seconds[name], default=None)
    if largest is None or seconds[largest] <= MUCH * waited:
        return ""
    name, cause = ACCOUNTS[largest]
    return f"{seconds[largest] / waited:.0%} of the waiting was {name}: it passed {cause}"


def _free_or_disordered(workload: Workload, services: Services, others: Mapping[str, Floats], waited: float) -> str:
    """Return that workers looked free, or that requests were not served in order, as a clause; "" if neither."""
    visits = workload.visits
    free = looked_free(visits, services, others[DISPATCH], visits.wait)
    seconds = sum(backend.seconds for backend in free)
    if seconds > MUCH * waited:
        return (
            f"during {seconds / waited:.0%} of the waiting time, the request's backend had a worker that looked "
            f"free, and the log does not show what held it. {explanation(free).rstrip('.')}".rstrip()
        )
    if (disorder := _disorder(workload)) > OUT_OF_ORDER:
        return (
            f"{disorder:.0%} of the requests started after one that had arrived later: they are not served in the "
            "order of arrival (LIFO, priorities, processes with queues of their own), which a replay assumes"
        )
    return ""


def _disorder(workload: Workload) -> float:
    """Return the share of requests that started after one of their backend that had arrived later."""
    visits = workload.visits
    late = 0
    for rows in visits.blocks.rows():
        started = rows[~np.isnan(visits.busy_start[rows])]
        started = started[np.lexsort((visits.busy_start[started], visits.backend[started]))]
        arrival = visits.arrival[started]
        (order,) = comparable(visits.backend[started], arrival)
        # The arrivals of each backend are later in this order than those of the backend before.
        is_last = order == np.maximum.accumulate(order)
        last = np.maximum.accumulate(np.where(is_last, np.arange(len(order)), 0))
        late += int((arrival < arrival[last] - AT_ONCE).sum())
    return late / max(len(visits), 1)


def _several_at_once(workload: Workload) -> str:
    """Return which backend served more requests at once than it has workers, as a clause; "" if none did."""
    visits = workload.visits
    has_both = ~np.isnan(visits.busy_end) & ~np.isnan(visits.busy_start)
    backend = visits.backend[has_both]
    slack = np.array(visits.workers.slack)[backend] if visits.workers.slack else SLACK
    most = most_of_each(
        visits.busy_start[has_both], visits.busy_end[has_both], backend, len(visits.backends), slack
    )  # fmt: skip
    for code in np.flatnonzero(most > visits.workers.count).tolist():
        if visits.workers.source[code] == FROM_INFERENCE:
            continue  # what seems to be more is the error of the stamps: the inference has checked it
        name = printable(visits.backends[code] or "a backend", 60)
        several = (
            f"up to {most[code]} requests were in service at once at {name}, which has "
            f"{counted(int(visits.workers.count[code]), 'worker')} "
        )
        origin = "by --workers" if visits.workers.source[code] == FROM_OPTION else "by its worker values"
        if _by_durations(workload) > MOST:
            return (
                f"{several}{origin}; no stamp reached the app, so service starts are estimated from durations, "
                "which is too coarse for a replay: have nginx stamp the requests (sojourn doctor prints the lines)"
            )
        if visits.workers.source[code] == FROM_OPTION:
            return f"{several}{origin}"
        return (
            f"{several}{origin}; an async or threaded app serves several in one worker: give "
            "--workers, the number of requests that it serves at once"
        )
    return ""


def _by_durations(workload: Workload) -> float:
    """Return the share of requests whose queueing delay is estimated from durations."""
    table = workload.visits.table
    if "queue_source" not in table.columns or table.is_empty():
        return 0.0
    return float((table["queue_source"] == "duration").sum() / len(table))
