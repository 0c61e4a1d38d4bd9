"""The smallest number of workers for which the recorded requests, replayed, hold an objective.

Arrivals and service times are kept as recorded. An upstream with one backend gets more or fewer workers; one with
several backends gets more or fewer backends of the usual size, by its own balancer. The upstreams of a workload are
scaled one by one, and each holds the objective.

Where services share a resource, more workers move waits from the queue into the services. There the objective for the
queueing delay is one for all waiting, in the queue and inside: more workers that do not help are not needed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

import numpy as np

from sojourn.analyses.whatif.binding import bound
from sojourn.analyses.whatif.replays import Station, stations
from sojourn.analyses.whatif.sharing import Sharing
from sojourn.analyses.whatif.variants import Change
from sojourn.analyses.whatif.withheld import WithheldError
from sojourn.analyses.whatif.workload import Bools, Floats, Workload
from sojourn.model.objective import Objective
from sojourn.queueing.replay import replay
from sojourn.queueing.sharing import replay_shared
from sojourn.queueing.staffing import least_that_holds
from sojourn.queueing.system import System

SEEDS = 5  # of a random choice among processes
MORE = 64  # workers beyond four times the present number are not looked for where services share a resource


def workers_needed(
    workload: Workload, objective: Objective, backlog: Bools | None = None, sharing: Sharing | None = None
) -> int | None:
    """Return the smallest total number of workers that holds the objective, first come first served.

    Args:
        workload: the requests; without any, 0 workers are needed.
        objective: the share of the requests, and the time they may take.
        backlog: requests that are there again when the first one arrives, and are not judged: those that wait at the
            end, if the recent requests are to say what the next ones need; None: no request waits at the beginning.
        sharing: the law of services that slow each other; None: services take as long as they did.

    Returns:
        The number; None if no number of workers holds the objective: service alone takes too long, or the resource that
        services share is too small.
    """
    total = 0
    for station in stations(workload, Change()) if len(workload) else ():
        if sharing is None:
            needed = _of_station(workload, station, objective, backlog)
        else:
            needed = _of_sharing_station(workload, station, objective, backlog, sharing)
        if needed is None:
            return None
        total += needed
    return total


def _of_station(workload: Workload, station: Station, objective: Objective, backlog: Bools | None) -> int | None:
    rows = station.rows
    present = station.system.workers
    size = 1 if len(present) == 1 else Counter(present).most_common(1)[0][0]
    binding = station.binding
    arrival, services = workload.visits.arrival[rows], workload.services[rows]
    # The response without the wait in the queue; the wait includes the way to an idle worker.
    beyond = workload.way[rows] + workload.read[rows]
    if objective.measure == "response_time":
        beyond = beyond + np.nan_to_num(workload.rest[rows]) + workload.head[rows] - workload.read[rows]
    allowed = math.floor((1 - objective.share) * len(rows) + 1e-9)  # requests that may miss it

    before = services[backlog[rows]] if backlog is not None else services[:0]
    all_arrivals = np.concatenate([np.full(len(before), arrival[0]), arrival])
    all_services = np.concatenate([before, services])

    def missed(wait: Floats) -> int:
        return int((wait + beyond > objective.seconds).sum())

    if missed(np.zeros(len(rows))) > allowed:
        return None

    def holds(units: int) -> bool:
        if binding is not None:
            system = System((1,) * units, balancer="given")
            replays = (
                replay(
                    all_arrivals, all_services, system, backend=bound(binding, all_arrivals, all_services, units, seed)
                )
                for seed in range(SEEDS)
            )
            return float(np.mean([missed(each.wait[len(before) :]) for each in replays])) <= allowed
        counts = (units,) if len(present) == 1 else (size,) * units
        system = System(counts, balancer="shared_queue" if len(counts) == 1 else station.balancer)
        return missed(replay(all_arrivals, all_services, system).wait[len(before) :]) <= allowed

    most = len(all_services)  # as many units as requests are enough, unless a balancer ignores free workers
    return _least(holds, services, arrival, size, most)


def _least(holds: Callable[[int], bool], services: Floats, arrival: Floats, size: int, most: int) -> int | None:
    """Return the smallest number of workers, in units of ``size``, for which ``holds``, at most ``most`` units."""
    busy = math.ceil(float(services.sum()) / max(float(arrival[-1] - arrival[0]), 1e-9) / size)
    units = least_that_holds(holds, 1, min(max(busy, 1), most), most)
    return None if units is None else units * size


def _of_sharing_station(
    workload: Workload, station: Station, objective: Objective, backlog: Bools | None, sharing: Sharing
) -> int | None:
    rows, present = station.rows, station.system.workers
    if station.binding is not None:
        return None
    size = 1 if len(present) == 1 else Counter(present).most_common(1)[0][0]
    arrival, demand = workload.visits.arrival[rows], sharing.demand[rows]
    before, after = workload.read[rows], (workload.services - workload.head)[rows]
    beyond = workload.way[rows]
    if objective.measure == "response_time":
        beyond = beyond + np.nan_to_num(workload.rest[rows]) + before + demand
    allowed = math.floor((1 - objective.share) * len(rows) + 1e-9)
    again = rows[backlog[rows]] if backlog is not None else rows[:0]
    number = len(again)

    def with_backlog(values: Floats, of_backlog: Floats) -> Floats:
        return np.concatenate([of_backlog, values])

    all_arrivals = with_backlog(arrival, np.full(number, arrival[0]))
    parts = (
        with_backlog(before, workload.read[again]),
        with_backlog(demand, sharing.demand[again]),
        with_backlog(after, (workload.services - workload.head)[again]),
    )

    def holds(units: int) -> bool:
        counts = (units,) if len(present) == 1 else (size,) * units
        resource, laws = sharing.resources_of(station.members, len(counts))
        system = System(counts, balancer="shared_queue" if len(counts) == 1 else station.balancer)
        if system.balancer == "given":
            system = System(counts, balancer="round_robin")
        slowed = replay_shared(all_arrivals, parts, system, laws, resource=resource)
        waits = slowed.outcome.wait + slowed.lasted - parts[1]
        return int((waits[number:] + beyond > objective.seconds).sum()) <= allowed

    alone = before + demand + after
    if int((beyond > objective.seconds).sum()) > allowed:
        return None
    try:
        return _least(holds, alone, arrival, size, 4 * sum(present) + MORE)
    except WithheldError:
        return None
