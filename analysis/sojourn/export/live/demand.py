"""What the number of workers is computed from besides the rate of arrivals: service times, and what bounds workers.

Where services share cores or a dependency, a service time is the one without others in progress, and workers
beyond those with which the resource is busy do not help.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from sojourn.analyses.whatif.sharing import Sharing
from sojourn.analyses.whatif.workload import Workload
from sojourn.export.memory import LAST_TIMES
from sojourn.export.refusal import SHARED
from sojourn.model.arrays import Floats
from sojourn.model.objective import Objective
from sojourn.queueing.live_staffing import Autoscaler, ServiceTimes, live_workers
from sojourn.queueing.speed_laws import Law
from sojourn.timeline.contention.resources import BACKEND, HOST

FEWEST = 21  # service times that show how much they vary
ROUNDING = 1e-5  # s, of an instant that is computed from two bases
BUSY = 0.99  # of what a resource can do at most
BEYOND = 64  # workers beyond four times the present number are not looked at


@dataclass(frozen=True)
class Demand:
    """What the requests of a service need.

    Attributes:
        times: how long they hold a worker; None: not known yet.
        workers: that are ready; None: not known.
        refused: why no number of workers may be given, a key of ``REASONS``; None: it may.
        lasted: for how long the last requests held a worker, s, at most ``LAST_TIMES`` of them.
        until: when the last one ended, unix s.
        useful: the most workers that help.
        factor: workers for each of those that the formula needs: those of one backend slow each other.
    """

    times: ServiceTimes | None = None
    workers: float | None = None
    refused: str | None = None
    lasted: Floats = field(default_factory=lambda: np.empty(0), repr=False, compare=False)
    until: float = -math.inf
    useful: float = math.inf
    factor: float = 1.0

    def needed(self, rate: float, in_progress: float, objective: Objective, autoscaler: Autoscaler) -> float:
        """Return the workers that hold an objective of the queueing delay, at most those that help.

        Arguments are those of ``live_workers``.

        Raises:
            ValueError: no service time is known.
        """
        if self.times is None:
            raise ValueError("no service time is known")
        ready = None if self.workers is None else self.workers / self.factor
        needed = live_workers(rate, in_progress, ready, self.times, objective.seconds, objective.share, autoscaler)
        return float(min(np.ceil(needed * self.factor), self.useful))


def times_of(lasted: Floats) -> ServiceTimes:
    """Return mean and variation of service times (s)."""
    mean = float(lasted.mean())
    cs2 = float(lasted.var()) / mean**2 if len(lasted) >= FEWEST and mean > 0 else 1.0
    return ServiceTimes(mean, cs2)


def demand_of(
    workload: Workload, workers: float | None, sharing: Sharing | None, before: Demand | None, refused: str | None
) -> Demand:
    """Return the demand of the recent requests.

    Args:
        workload: of those that arrived in the window.
        workers: that are ready; None: not known.
        sharing: the law of what their services share; None: nothing.
        before: the demand of earlier requests, to whose times those of later ones are added; None: there is none.
        refused: why no number of workers may be computed, a key of ``REASONS``; None: it may.
    """
    held = workload.services - workload.absence
    if sharing is not None:
        held = sharing.held(workload) - workload.absence
    lasted, until = _last_times(workload, held, before or Demand())
    # Without a request of known service time, those that were drawn from before.
    times = times_of(lasted if len(lasted) else held)
    demand = Demand(times, workers, refused, lasted, until)
    return demand if sharing is None or refused is not None else _bounded(demand, workload, sharing, held)


def _last_times(workload: Workload, held: Floats, before: Demand) -> tuple[Floats, float]:
    """Return for how long the last requests held a worker, s, and when the last one ended, unix s."""
    ends = workload.visits.busy_end + workload.visits.base.timestamp()
    later = np.flatnonzero(ends > before.until + ROUNDING)  # NaN, an unknown end, is not later
    later = later[np.argsort(ends[later], kind="stable")]
    lasted = np.concatenate([before.lasted, held[later]])[-LAST_TIMES:]
    return lasted, float(ends[later[-1]]) if len(later) else before.until


def _bounded(demand: Demand, workload: Workload, sharing: Sharing, held: Floats) -> Demand:
    """Return a demand with the bounds of what services share."""
    backends = len(workload.visits.backends)
    several = backends > 1
    if several and sharing.scope == HOST:
        return replace(demand, refused=SHARED)
    present = workload.visits.workers.count
    # The shared part of a service is a part of what it holds its worker for.
    beyond = max(float(held.sum()) / max(float(sharing.demand.sum()), 1e-9), 1.0)
    if several and sharing.scope == BACKEND:
        size = int(np.median(present))
        return replace(demand, factor=_slowed(sharing.laws[int(sharing.resource[0])], size))
    most = 4 * int(present.sum()) + BEYOND
    useful = sum(_useful(sharing.laws[number], most) for number in np.unique(sharing.resource).tolist())
    return replace(demand, useful=math.ceil(useful * beyond))


def _useful(law: Law, most: int) -> float:
    """Return the fewest services in progress with which a resource does as much as it can."""
    number = np.arange(most + 1)
    done = number * law.speeds(most)
    least = int(np.argmax(done >= BUSY * done.max()))
    return math.inf if least >= BUSY * most else least


def _slowed(law: Law, size: int) -> float:
    """Return by how much as many services as a backend has workers slow each other."""
    return 1.0 / float(law.speeds(size)[size])
