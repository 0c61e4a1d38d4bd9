"""Replay requests whose services share resources: workers admit them in order, and services in progress are slowed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sojourn.model.arrays import Floats
from sojourn.model.formatting import counted
from sojourn.queueing import sharing_kernel
from sojourn.queueing.outcome import SERVED, Outcome
from sojourn.queueing.records import EVENT
from sojourn.queueing.replay import BALANCERS_OF_KERNEL, destinations
from sojourn.queueing.speed_laws import Law, Places
from sojourn.queueing.system import System


@dataclass(frozen=True)
class SharedOutcome:
    """The outcome of a replay; ``lasted``: how long the shared part of each service lasted, s, n."""

    outcome: Outcome
    lasted: Floats


def replay_shared(
    arrivals: npt.ArrayLike,
    services: tuple[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike],
    system: System,
    laws: tuple[Law, ...],
    *,
    resource: npt.ArrayLike | None = None,
    backend: npt.ArrayLike | None = None,
    session: npt.ArrayLike | None = None,
    seed: int = 0,
) -> SharedOutcome:
    """Replay n requests, first come, first served, through a system that is empty at first.

    Args:
        arrivals: s, n, ascending.
        services: s, n each: what a request does before it needs the resource, its demand, and what it does after. It
            holds its worker for all three; the second lasts as long as its demand if no other service is in progress.
        system: workers and balancer; its other rules are not used.
        laws: of the speed at each resource, or its number of places.
        resource: per backend, the resource of its services, from 0; None: the first one for all.
        backend: n, for the balancer "given": the backend of each, from 0.
        session: n, for the balancer "pinned": equal for requests of one session.
        seed: of the balancer "two_choices".

    Returns:
        The outcome of every request, in the order of the input.

    Raises:
        ValueError: the arrays do not fit each other or the system.
    """
    arrival, before, demand, after = (np.ascontiguousarray(each, np.float64) for each in (arrivals, *services))
    n = len(arrival)
    for values in (before, demand, after):
        if len(values) != n:
            raise ValueError(f"{counted(n, 'arrival')} and {counted(len(values), 'service')}: give as many of each")
        if n and not values.min() >= 0:
            raise ValueError("services must be 0 or more")
    of_backend = np.zeros(system.backends, np.int64) if resource is None else np.ascontiguousarray(resource, np.int64)
    if len(of_backend) != system.backends or not 0 <= of_backend.min() <= of_backend.max() < len(laws):
        raise ValueError("resource: give one number of a law for each backend")
    most = sum(system.workers)
    speeds = np.array([law.speeds(most) for law in laws])
    places = np.array([law.number if isinstance(law, Places) else 0 for law in laws], np.int64)
    start, lasted, released = (np.full(n, np.nan) for _ in range(3))
    chosen = np.zeros(n, np.int64)
    sharing_kernel.run(
        arrival, before, demand, after, destinations(system, n, backend, session), np.array(system.workers, np.int64),
        of_backend, speeds, places, BALANCERS_OF_KERNEL[system.balancer], seed % 2**32,
        np.zeros((len(laws), most + 1), EVENT), np.zeros(most + 1, EVENT), start, lasted, released, chosen,
    )  # fmt: skip
    outcome = Outcome(
        arrival=arrival,
        backend=chosen.astype(np.int32),
        wait=start - arrival,
        sojourn=released - arrival,
        start=start,
        status=np.full(n, SERVED, np.int8),
        attempts=np.ones(n, np.int32),
        busy=float((released - start).sum()),
        wasted=0.0,
        ended=float(released.max()) if n else 0.0,
        workers=most,
    )
    return SharedOutcome(outcome, lasted)
