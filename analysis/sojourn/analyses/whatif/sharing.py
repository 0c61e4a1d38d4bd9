"""Replay services that share resources: under a plausible law of speed, or with a queue for places inside the app."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from threading import Lock

import numpy as np

from sojourn.analyses.whatif.variants import Amount, Change
from sojourn.analyses.whatif.withheld import WithheldError
from sojourn.analyses.whatif.workload import Workload
from sojourn.model.arrays import Floats, Ints
from sojourn.model.errors import SojournError
from sojourn.model.formatting import formatted
from sojourn.queueing.sharing import SharedOutcome, replay_shared
from sojourn.queueing.speed_laws import NOTHING_SHARED, Law, Places, SpeedLaw
from sojourn.queueing.system import System
from sojourn.timeline.contention.estimate import PLAUSIBLE, PLAUSIBLE_BEYOND
from sojourn.timeline.contention.resources import ALL, BACKEND, HOST, Contention

NO_PLACES = "no queue for a pool inside the app shows in the log"


@dataclass(frozen=True)
class Sharing:
    """One combination of plausible laws, and the requests under it; n of them.

    Attributes:
        scope: of ``Contention``.
        resource: of each backend of the workload.
        of_request: resource of each request.
        laws: of each resource.
        demand: s, n: the shared part of each service if no other is in progress.
    """

    scope: str
    resource: Ints
    of_request: Ints
    laws: tuple[Law, ...]
    demand: Floats

    @classmethod
    def of(cls, workload: Workload, contention: Contention, laws: tuple[Law, ...]) -> Sharing:
        """Return a combination; a request of unknown service has a demand in proportion to the one that was drawn."""
        shared = np.maximum(workload.head - workload.read, 0.0)
        demand = contention.demands(laws)
        demand = demand if workload.order is None else demand[workload.order]
        resource = contention.of_backend
        of_request = resource[workload.visits.backend]
        unknown = np.isnan(demand)
        if unknown.any():
            ratio = float(demand[~unknown].sum()) / max(float(shared[~unknown].sum()), 1e-9)
            demand = np.where(unknown, shared * np.where(of_request < 0, 1.0, ratio), demand)
        if (resource < 0).any():
            own = len(laws)
            resource, of_request = (np.where(codes < 0, own, codes) for codes in (resource, of_request))
            laws = (*laws, NOTHING_SHARED)
        scope = ALL if contention.inner and len(contention.inner[0].backends) > 1 else contention.scope
        return cls(scope, resource, of_request, laws, demand)

    @classmethod
    def likeliest(cls, workload: Workload, contention: Contention | None) -> Sharing | None:
        """Return the likeliest combination; None: services share nothing, or no law explains them."""
        if contention is None or not contention.explains:
            return None
        return cls.of(workload, contention, contention.laws)

    def in_order(self, order: Ints) -> Sharing:
        """Return the combination for the requests in another order."""
        return replace(self, of_request=self.of_request[order], demand=self.demand[order])

    def held(self, workload: Workload) -> Floats:
        """Return how long each request would hold its worker if no other service was in progress, s."""
        return workload.services - workload.head + workload.read + self.demand

    @property
    def has_capacity(self) -> bool:
        """Whether each law is that of a resource with a capacity."""
        return all(isinstance(law, SpeedLaw) and not law.contention and not law.coherence for law in self.laws)

    @property
    def waits_inside(self) -> bool:
        """Whether requests wait for places inside the app."""
        return any(isinstance(law, Places) for law in self.laws)

    def has_places(self, backend: int) -> bool:
        """Return whether the requests of a backend wait for places inside its app."""
        return isinstance(self.laws[self.resource[backend]], Places)

    def changed(self, change: Change) -> Sharing:
        """Return the combination with more or fewer cores or places, or with a dependency of another speed.

        Raises:
            WithheldError: a law has no capacity, or no part at a dependency, that could be changed.
        """
        if change.pool is None and change.cores is None and change.dependency == 1:
            return self
        if self.waits_inside:
            if change.pool is None or change.cores is not None or change.dependency != 1:
                raise WithheldError("requests wait for places inside the app, and what they do there does not show")
            return replace(self, laws=tuple(_with_places(law, change.pool) for law in self.laws))
        if change.pool is not None:
            raise WithheldError(NO_PLACES)
        laws = tuple(law for law in self.laws if isinstance(law, SpeedLaw))
        if not self.has_capacity:
            raise WithheldError("services slow each other, and the log does not show a resource that could be larger")
        if change.cores is not None:
            laws = tuple(law if math.isinf(law.capacity) else _with_cores(law, change.cores) for law in laws)
        # The part at the dependency becomes shorter; the rest does not.
        parts = [0.0 if math.isinf(law.capacity) else law.share for law in laws]
        lasts = np.array([1 - part * (1 - change.dependency) for part in parts])
        laws = tuple(
            replace(law, share=part * change.dependency / last) if part else law
            for law, part, last in zip(laws, parts, lasts.tolist(), strict=True)
        )
        return replace(self, laws=laws, demand=self.demand * lasts[self.of_request])

    def resources_of(self, members: tuple[int, ...], count: int) -> tuple[Ints, tuple[Law, ...]]:
        """Return the resource of each of ``count`` backends, and the laws; those beyond ``members`` (by code) are new.

        Raises:
            WithheldError: which resource a new backend would use is not known.
        """
        resource = self.resource[list(members[:count])]
        more = count - len(resource)
        if more and self.scope == HOST:
            raise WithheldError("on which host another backend would run is not known")
        if more and self.scope == BACKEND:
            # A new backend has a resource of its own, like that of the first.
            first = len(self.laws)
            laws = (*self.laws, *[self.laws[int(resource[0])]] * more)
            return np.append(resource, np.arange(first, first + more)), laws
        return np.append(resource, np.full(more, resource[0])), self.laws


class Laws:
    """The plausible laws of the services of a workload.

    Args:
        workload: the requests.
        contention: what their services share; None: they do not depend on the load.
        possible: returns what they may share nevertheless.
        on_cores: returns what they may share of the cores of their hosts; None: their number is not known.
    """

    def __init__(
        self,
        workload: Workload,
        contention: Contention | None,
        possible: Callable[[], Contention | None],
        on_cores: Callable[[], Contention | None] | None,
    ) -> None:
        self._workload, self._contention, self._possible = workload, contention, possible
        self._on_cores = on_cores
        self._lock = Lock()
        self._computed: dict[float, list[Sharing]] = {}
        self._computing: list[Sharing] | None = None

    @cached_property
    def likeliest(self) -> Sharing | None:
        """The likeliest law; None: services share nothing, or no law explains them."""
        explains = self._contention is not None and self._contention.explains
        return self._all(PLAUSIBLE)[0] if explains else None

    def others(self, change: Change) -> list[Sharing]:
        """Return the other laws that a prediction must agree with.

        Where services seem to share nothing, little that they share matters only if a change adds to the load of
        workers.
        """
        of_capacity = change.cores is not None or change.dependency != 1
        if self.likeliest is not None:
            laws = self._all(PLAUSIBLE_BEYOND if of_capacity else PLAUSIBLE)[1:]
            return [each for each in laws if each.has_capacity or not of_capacity]
        not_replayed = change.discipline or change.retries or change.capacity is not None or change.pools
        in_doubt = self._contention is not None and self._contention.in_doubt
        more = self._contention is None and adds_load(self._workload, change)
        return self._all(PLAUSIBLE) if (in_doubt or more) and not not_replayed and not of_capacity else []

    def computing(self, change: Change) -> list[Sharing]:
        """Return the laws of services that compute on the cores of their hosts, each with a plausible share.

        A prediction must agree with them if more services than before may be in progress, where these seem to share
        nothing.
        """
        more = change.workers or change.backends or change.limit
        if self._on_cores is None or self.likeliest is not None or not more:
            return []
        with self._lock:
            if self._computing is None:
                self._computing = self._compute(self._on_cores(), PLAUSIBLE)
            return self._computing

    def _all(self, margin: float) -> list[Sharing]:
        with self._lock:
            if margin not in self._computed:
                self._computed[margin] = self._compute(self._contention or self._possible(), margin)
            return self._computed[margin]

    def _compute(self, contention: Contention | None, margin: float) -> list[Sharing]:
        if contention is None or contention.refused is not None:
            return []
        return [Sharing.of(self._workload, contention, laws) for laws in contention.choices(margin)]


def adds_load(workload: Workload, change: Change) -> bool:
    """Return whether a change adds to the load of workers: fewer of them, or more work."""
    visits = workload.visits
    present = (
        (change.workers, visits.workers.count.tolist()),
        (change.backends, np.bincount(visits.pool).tolist()),
        (change.limit, list(workload.limits.values())),
    )
    fewer = any(amount is not None and amount.of(count) < count for amount, counts in present for count in counts)
    return fewer or change.load > 1 or change.service > 1 or any(factor > 1 for factor in change.routes.values())


def _with_cores(law: SpeedLaw, amount: Amount) -> SpeedLaw:
    capacity = amount.of(law.capacity)
    if not capacity >= 1:
        raise WithheldError(
            f"{formatted(capacity, '.2g')} cores would be left; services on less than one are not known"
        )
    return replace(law, capacity=capacity)


def _with_places(law: Law, amount: Amount) -> Law:
    if not isinstance(law, Places):
        return law
    number = round(amount.of(law.number))
    if number < 1:
        raise SojournError("pool: no place would be left")
    return Places(number)


def replay_sharing(
    workload: Workload, rows: Ints, system: System, members: tuple[int, ...], sharing: Sharing,
    arrival: Floats, factors: Floats, after: Floats, *, backend: Ints | None, session: Ints | None, seed: int,
) -> SharedOutcome:  # fmt: skip
    """Replay the requests ``rows`` of a station.

    ``members``: code of the recorded backend that each backend of the system is; ``arrival`` (s), ``factors`` of the
    services, and ``after``, how long each request holds its worker after the shared part (s): of each of the rows.

    Raises:
        WithheldError: the replay does not contain a rule of the system.
    """
    if system.discipline != "fifo":
        raise WithheldError("where services share something, only the order of arrival is replayed")
    if system.retries or system.capacity is not None:
        raise WithheldError("where services share something, retries and full queues are not replayed")
    resource, laws = sharing.resources_of(members, system.backends)
    parts = workload.read[rows] * factors, sharing.demand[rows] * factors, after
    return replay_shared(
        arrival, parts, system, laws, resource=resource, backend=backend, session=session, seed=seed
    )  # fmt: skip
