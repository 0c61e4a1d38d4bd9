"""The smallest number of workers for which the recorded requests, replayed, hold an objective.

Arrivals and service times are kept as recorded. An upstream with one backend gets more or fewer workers; one with
several backends gets more or fewer backends of the usual size, by its own balancer. The upstreams of a workload are
scaled one by one, and each holds the objective.
"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np

from sojourn.analyses.whatif.replays import Station, stations
from sojourn.analyses.whatif.variants import Change
from sojourn.analyses.whatif.workload import Floats, Workload
from sojourn.model.objective import Objective
from sojourn.queueing.replay import replay
from sojourn.queueing.system import System


def workers_needed(workload: Workload, objective: Objective) -> int | None:
    """Return the smallest total number of workers that holds the objective, first come first served.

    Args:
        workload: the requests; without any, 0 workers are needed.
        objective: the share of the requests, and the time they may take.

    Returns:
        The number; None if no number of workers holds the objective, because service alone takes too long.
    """
    total = 0
    for number, station in enumerate(stations(workload, Change()) if len(workload) else ()):
        needed = _of_station(workload, station, workload.balancers[number], objective)
        if needed is None:
            return None
        total += needed
    return total


def _of_station(workload: Workload, station: Station, balancer: str, objective: Objective) -> int | None:
    rows = station.rows
    present = station.system.workers
    size = 1 if len(present) == 1 else Counter(present).most_common(1)[0][0]
    arrival, services = workload.visits.arrival[rows], workload.services[rows]
    # The response without the wait in the queue; the wait includes the way to an idle worker.
    beyond = workload.way[rows]
    if objective.measure == "response_time":
        beyond = beyond + np.nan_to_num(workload.rest[rows]) + workload.head[rows]
    allowed = math.floor((1 - objective.share) * len(rows) + 1e-9)  # requests that may miss it

    def missed(wait: Floats) -> int:
        return int((wait + beyond > objective.seconds).sum())

    if missed(np.zeros(len(rows))) > allowed:
        return None

    def holds(units: int) -> bool:
        counts = (units,) if len(present) == 1 else (size,) * units
        system = System(counts, balancer="shared_queue" if len(counts) == 1 else balancer)
        return missed(replay(arrival, services, system).wait) <= allowed

    high = max(math.ceil(float(services.sum()) / max(float(arrival[-1] - arrival[0]), 1e-9) / size), 1)
    high = min(high, len(rows))
    low = 1
    while not holds(high):
        low, high = high + 1, min(2 * high, len(rows))
        if low > len(rows):  # as many units as requests: only a balancer that ignores free workers fails
            return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low * size
