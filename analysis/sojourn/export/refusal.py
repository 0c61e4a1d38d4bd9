"""Whether the signals to scale on may be given: the recent requests, replayed, wait as they did.

The signals assume that a worker is held for the service time of one request, and that a free worker takes a waiting
request. Where workers are held by something else, a replay waits less than the requests did, and the number of workers
that it computes is too small.
"""

from __future__ import annotations

import numpy as np

from sojourn.analyses.whatif.binding import BY_CLIENT
from sojourn.analyses.whatif.replays import replay_workload
from sojourn.analyses.whatif.sharing import Sharing
from sojourn.analyses.whatif.variants import Change
from sojourn.analyses.whatif.withheld import WithheldError
from sojourn.analyses.whatif.workload import Workload
from sojourn.model.arrays import Floats
from sojourn.model.components import GIVEN_UP_STATUSES
from sojourn.timeline.classes import classes_of
from sojourn.timeline.contention.resources import Contention
from sojourn.timeline.services import services_of
from sojourn.timeline.suspicions import ABSENT
from sojourn.timeline.visits import Visits

SEVERAL = "several_in_one_worker"
WAITS = "waits_not_reproduced"
SHARED = "service_depends_on_load"
LIMITED = "limit_in_front"
AWAY = "workers_absent"
BOUND = "bound_to_processes"
CLOCKS = "clocks_disagree"
REASONS = {
    SEVERAL: "a worker serves several requests at a time, so a request is no demand for a worker",
    WAITS: "the recent requests, replayed, wait for another time than they did: something that the log does not show "
    "holds the workers, or keeps requests from them",
    LIMITED: "a limit in front of the workers (max_conns, maxconn) keeps some idle; more of them do not help",
    AWAY: "workers were absent at times (restarts, deploys, scaling), and how often may depend on their number",
    BOUND: "processes have queues of their own, and which requests more workers would serve is not known",
    SHARED: "services depend on the load, and no law of what they share explains it; more workers may not help",
    CLOCKS: "records are ahead of the exporter's clock, by more than 5 s, and which others are missing is not known",
}
FEWEST = 50  # requests of known wait: fewer tell nothing
RELATIVE = 0.25  # of the mean wait, and of its 95th percentile
SMALLEST = 0.010  # s: a smaller difference is within the way to a worker and the work between two requests
TAIL = 0.95


def signal_refusal(
    workload: Workload, since: float, contention: Contention | None, *, but: frozenset[str] = frozenset()
) -> str | None:
    """Return why no signal may be given, a key of ``REASONS``; None if it may.

    Args:
        workload: the requests of the window, and those that were present when it began.
        since: begin of the window, s after ``workload.visits.base``; the waits of later arrivals are compared.
        contention: what their services share; None: they do not depend on the load.
        but: reasons that are left out.
    """
    visits = workload.visits
    if visits.workers.several_at_once:
        return SEVERAL
    if (reason := _of_workers(workload, but)) is not None:
        return reason
    measured = _waits(workload)
    judged = (visits.arrival > since) & ~np.isnan(measured)
    if int(judged.sum()) < FEWEST:
        return None
    if contention is not None and (contention.inner or contention.refused is not None):
        return SHARED
    # A request that was present before is replayed from the start of its service: what it waited for is not known.
    early = (visits.arrival <= since) & (visits.busy_start > visits.arrival)
    arrival = np.where(early, visits.busy_start, visits.arrival)
    order = np.argsort(arrival, kind="stable")
    sharing = Sharing.likeliest(workload, contention)
    sharing = sharing and sharing.in_order(order)
    try:
        replayed = replay_workload(workload.in_order(arrival, order), Change(), sharing=sharing)
    except WithheldError:
        return SHARED
    wait = np.empty(len(order))
    wait[order] = replayed.wait
    given_up = visits.rows["status"].is_in(GIVEN_UP_STATUSES).to_numpy()
    wait = np.where(given_up, np.minimum(wait, measured), wait)[judged]
    measured = measured[judged]
    pairs = ((wait.mean(), measured.mean()), (np.quantile(wait, TAIL), np.quantile(measured, TAIL)))
    fits = all(abs(new - old) <= max(RELATIVE * old, SMALLEST) for new, old in pairs)
    return None if fits else WAITS


def live_refusal(workload: Workload, since: float, contention: Contention | None, refused: str | None) -> str | None:
    """Return why the workers needed may not be computed from arrivals, a key of ``REASONS``; None: they may.

    An autoscaler adds and removes workers, so that a replay with the same number of them waits for another time, and
    workers that start seem to be limited. Then it is enough that waiting requests wait for what their own workers do.

    Args:
        workload: as of ``signal_refusal``.
        since: as well.
        contention: as well.
        refused: what ``signal_refusal`` returned.
    """
    if refused not in (AWAY, LIMITED, WAITS):
        return refused
    idle = idle_while_waiting(workload.visits, since)
    if idle is None:
        return signal_refusal(workload, since, contention, but=frozenset((AWAY,)))
    gap, wait = idle
    if gap > max(RELATIVE * wait, SMALLEST):
        return LIMITED if refused == LIMITED else WAITS
    if refused == WAITS:  # the last reason of all
        return None
    refused = signal_refusal(workload, since, contention, but=frozenset((AWAY, LIMITED)))
    return None if refused == WAITS else refused


def idle_while_waiting(visits: Visits, since: float) -> tuple[float, float] | None:
    """Return for how long workers did nothing in the log while the request that they served next waited.

    Args:
        visits: the requests.
        since: s after ``visits.base``; later arrivals are judged, each except the first of its worker.

    Returns:
        The mean of this time and of the waits, s; None where too few workers have names.
    """
    services = services_of(visits)
    names = visits.column_at("worker", np.arange(len(visits)))
    worker, classes = classes_of(names)
    has_times = ~np.isnan(services.begin) & ~np.isnan(services.end) & names.is_not_null().to_numpy()
    group = visits.backend * np.int64(len(classes)) + worker
    rows = np.flatnonzero(has_times)
    rows = rows[np.lexsort((services.begin[rows], group[rows]))]
    if not len(rows):
        return None
    group, arrival, begin = group[rows], visits.arrival[rows], services.begin[rows]
    judged = np.append(False, group[1:] == group[:-1]) & (arrival > since)
    if int(judged.sum()) < FEWEST:
        return None
    free = np.append(0.0, services.end[rows][:-1])
    wait = np.maximum(begin - arrival, 0.0)[judged]
    gap = np.maximum(begin - np.maximum(arrival, free), 0.0)[judged]
    return float(gap.mean()), float(wait.mean())


def _of_workers(workload: Workload, but: frozenset[str]) -> str | None:
    """Return why another number of workers cannot be computed, whatever the waits are; None if it can."""
    visits = workload.visits
    if workload.limits and LIMITED not in but:
        return LIMITED
    if visits.with_suspect(ABSENT) and AWAY not in but:
        return AWAY
    for code, binding in workload.bindings.items():
        sizes = visits.places.workers[visits.places.backend == code]
        if binding.rule == BY_CLIENT or visits.reserved[code] or max(sizes) > 1:
            return BOUND
    return None


def _waits(workload: Workload) -> Floats:
    """Return the waits, s: until an abandoned request of unknown wait was given up; NaN if unknown."""
    visits = workload.visits
    abandoned = visits.rows["status"].is_in(GIVEN_UP_STATUSES).to_numpy() & np.isnan(workload.wait)
    return np.where(abandoned, visits.ended - visits.arrival, workload.wait)
