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
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from sojourn.analyses.whatif.binding import bound
from sojourn.analyses.whatif.replays import Station, stations
from sojourn.analyses.whatif.sharing import Sharing
from sojourn.analyses.whatif.variants import Change
from sojourn.analyses.whatif.withheld import WithheldError
from sojourn.analyses.whatif.workload import Workload
from sojourn.model.arrays import Bools, Floats, Ints
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
        needed = _of_station(workload, station, objective, backlog, sharing)
        if needed is None:
            return None
        total += needed
    return total


def _of_station(
    workload: Workload, station: Station, objective: Objective, backlog: Bools | None, sharing: Sharing | None
) -> int | None:
    rows, present = station.rows, station.system.workers
    size = 1 if len(present) == 1 else Counter(present).most_common(1)[0][0]
    again = rows[backlog[rows]] if backlog is not None else rows[:0]
    arrival = workload.visits.arrival[rows]
    # Those of the backlog come first.
    requests, arrivals = np.concatenate([again, rows]), np.append(np.full(len(again), arrival[0]), arrival)
    if sharing is None:
        waits, served = _waits(workload, requests, arrivals, station, size), workload.head - workload.read
        alone = workload.services
    else:
        waits, served = _sharing_waits(workload, requests, arrivals, station, size, sharing), sharing.demand
        alone = sharing.held(workload)
    # The response without the wait in the queue; the wait includes the way to an idle worker.
    beyond = workload.way[rows] + workload.read[rows]
    if objective.measure == "response_time":
        beyond = beyond + np.nan_to_num(workload.rest[rows]) + served[rows]
    allowed = math.floor((1 - objective.share) * len(rows) + 1e-9)  # requests that may miss it

    def missed(wait: Floats) -> int:
        return int((wait + beyond > objective.seconds).sum())

    def holds(units: int) -> bool:
        return float(np.mean([missed(wait[len(again) :]) for wait in waits(units)])) <= allowed

    if missed(np.zeros(len(rows))) > allowed:
        return None
    # As many units as requests are enough, unless a balancer ignores free workers.
    most = len(requests) if sharing is None else 4 * sum(present) + MORE
    busy = math.ceil(float(alone[rows].sum()) / max(float(arrival[-1] - arrival[0]), 1e-9) / size)
    try:
        units = least_that_holds(holds, 1, min(max(busy, 1), most), most)
    except WithheldError:
        return None
    return None if units is None else units * size


def _waits(
    workload: Workload, rows: Ints, arrival: Floats, station: Station, size: int
) -> Callable[[int], Iterator[Floats]]:
    """Return the waits (s) for a number of units of ``size`` workers: of one replay, or of several by chance."""
    services, binding = workload.services[rows], station.binding

    def waits(units: int) -> Iterator[Floats]:
        if binding is None:
            yield replay(arrival, services, _system(station, units, size)).wait
            return
        system = System((1,) * units, balancer="given")
        for seed in range(SEEDS):
            yield replay(arrival, services, system, backend=bound(binding, arrival, services, units, seed)).wait

    return waits


def _sharing_waits(
    workload: Workload, rows: Ints, arrival: Floats, station: Station, size: int, sharing: Sharing
) -> Callable[[int], Iterator[Floats]]:
    """Return the same where services share a resource: waits in the queue and inside the services."""
    demand = sharing.demand[rows]
    parts = workload.read[rows], demand, (workload.services - workload.head)[rows]

    def waits(units: int) -> Iterator[Floats]:
        if station.binding is not None:
            raise WithheldError("how requests would be bound to processes whose services slow each other is not known")
        system = _system(station, units, size)
        if system.balancer == "given":
            system = replace(system, balancer="round_robin")
        resource, laws = sharing.resources_of(station.members, system.backends)
        slowed = replay_shared(arrival, parts, system, laws, resource=resource)
        yield slowed.outcome.wait + slowed.lasted - demand

    return waits


def _system(station: Station, units: int, size: int) -> System:
    """Return one backend of ``units`` workers, or ``units`` backends of ``size`` workers each."""
    if len(station.system.workers) == 1:
        return System((units,), balancer="shared_queue")
    counts = (size,) * units
    return System(counts, balancer="shared_queue" if units == 1 else station.balancer)
