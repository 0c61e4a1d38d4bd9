"""The smallest number of workers for which the recorded requests, replayed, hold an objective.

Arrivals and service times are kept as recorded. An upstream with one backend gets more or fewer workers; one with
several backends gets more or fewer backends of the usual size, by its own balancer. The upstreams of a workload are
scaled one by one, and each holds the objective.
"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np

from sojourn.analyses.whatif.binding import bound
from sojourn.analyses.whatif.replays import Station, stations
from sojourn.analyses.whatif.variants import Change
from sojourn.analyses.whatif.workload import Bools, Floats, Workload
from sojourn.model.objective import Objective
from sojourn.queueing.replay import replay
from sojourn.queueing.staffing import least_that_holds
from sojourn.queueing.system import System

SEEDS = 5  # of a random choice among processes


def workers_needed(workload: Workload, objective: Objective, backlog: Bools | None = None) -> int | None:
    """Return the smallest total number of workers that holds the objective, first come first served.

    Args:
        workload: the requests; without any, 0 workers are needed.
        objective: the share of the requests, and the time they may take.
        backlog: requests that are there again when the first one arrives, and are not judged: those that wait at the
            end, if the recent requests are to say what the next ones need; None: no request waits at the beginning.

    Returns:
        The number; None if no number of workers holds the objective, because service alone takes too long.
    """
    total = 0
    for station in stations(workload, Change()) if len(workload) else ():
        needed = _of_station(workload, station, objective, backlog)
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

    busy = math.ceil(float(services.sum()) / max(float(arrival[-1] - arrival[0]), 1e-9) / size)
    # As many units as requests are enough, unless a balancer ignores free workers.
    most = len(all_services)
    units = least_that_holds(holds, 1, min(max(busy, 1), most), most)
    return None if units is None else units * size
