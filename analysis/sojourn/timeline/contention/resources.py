"""What the services of backends share: the law of each resource, and the waits of services under it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from sojourn.model.arrays import Floats, Ints
from sojourn.model.formatting import counted
from sojourn.queueing.speed_laws import Law, Places
from sojourn.timeline.contention.courses import Course
from sojourn.timeline.contention.estimate import COHERENCE, NONE, PLAUSIBLE, Estimate
from sojourn.timeline.contention.independence import service_ends
from sojourn.timeline.contention.inner_queue import InnerQueue
from sojourn.timeline.contention.shared_parts import SharedParts, most_in_progress
from sojourn.timeline.contention.usual_speed import UsualSpeed
from sojourn.timeline.visits import Visits

BACKEND, HOST, ALL = "backend", "host", "all"
WORKERS, CORES, DEPENDENCY, PLACES = BOTTLENECKS = "workers", "cores", "dependency", "places"
ONE = 1.05  # a capacity below is that of one


@dataclass(frozen=True)
class Resource:
    """What the services of some backends share.

    Attributes:
        name: the backend, the host, or the backends.
        backends: indices into ``Visits.backends``.
        estimate: of its law.
        rate: of its services, requests/s.
        busy: share of its capacity that is used, by the likeliest law; None where the law has no capacity.
        workers_busy: share of the time of the workers that services would hold if nothing was shared; None: no limit.
        slowdown: mean service / mean demand.
        usual: factors of workers and of time, of the services that were looked at.
    """

    name: str
    backends: tuple[int, ...]
    estimate: Estimate
    rate: float
    busy: float | None
    workers_busy: float | None
    slowdown: float
    usual: UsualSpeed = field(repr=False)

    @property
    def is_shared(self) -> bool:
        """Whether its services share anything."""
        return self.estimate.best.family != NONE

    @property
    def is_scarcest(self) -> bool:
        """Whether it saturates before the workers do, by their demands (Denning & Buzen 1978)."""
        return self.busy is not None and (self.workers_busy is None or self.busy > self.workers_busy)

    @property
    def saturates_at(self) -> float | None:
        """The rate at which all of its capacity is used, requests/s, with any number of workers; None: unknown."""
        return self.rate / self.busy if self.busy else None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        best, low, high = self.estimate.best, self.estimate.low, self.estimate.high
        has_capacity = math.isfinite(best.law.capacity)
        return {
            "name": self.name,
            "family": best.family,
            **best.law.to_dict(),
            "low": low if has_capacity else None,
            "high": high if has_capacity else None,
            "rate": self.rate,
            "saturates_at": self.saturates_at,
            "busy": self.busy,
            "workers_busy": self.workers_busy,
            "scarcest": self.is_scarcest,
            "slowdown": self.slowdown,
        }


@dataclass(frozen=True)
class Contention:
    """What services share.

    Attributes:
        scope: ``backend``, ``host`` or ``all``.
        resources: each with the backends that share it.
        refused: why no law is used, as a clause; None: the laws hold.
        visits: the requests.
        in_doubt: services share little, or nothing: a prediction must agree with both.
        courses: workers and times that are slower than usual, whatever the load, by the demands.
        inner: queues inside the services, where no law of speed explains them; then there are no resources.
    """

    scope: str
    resources: tuple[Resource, ...]
    refused: str | None
    visits: Visits = field(repr=False)
    in_doubt: bool = False
    courses: tuple[Course, ...] = ()
    inner: tuple[InnerQueue, ...] = ()

    @property
    def explains(self) -> bool:
        """Whether the waits of services are explained: by laws of speed, or by queues inside the app."""
        return self.refused is None and not self.in_doubt

    def gain(self, *, moved: bool) -> float:
        """Return the largest difference of the logarithms of likelihoods to services that share nothing.

        Args:
            moved: of resources at which some times are slower than others, whatever the load; False: of the others.
        """
        return max((each.estimate.gain for each in self.resources if each.usual.moved == moved), default=0.0)

    def on(self, visits: Visits) -> Contention:
        """Return the same laws for other visits of the same backends."""
        code = {name: number for number, name in enumerate(visits.backends)}
        resources = []
        for each in self.resources:
            names = [self.visits.backends[number] for number in each.backends]
            resources.append(replace(each, backends=tuple(code[name] for name in names if name in code)))
        return replace(self, visits=visits, resources=tuple(each for each in resources if each.backends))

    @property
    def bottleneck(self) -> str:
        """The kind of the resource that saturates first: ``workers``, ``cores``, ``dependency`` or ``places``."""
        if self.inner:
            return PLACES if any(each.is_scarcest for each in self.inner) else WORKERS
        scarcest = [each for each in self.resources if each.is_shared and each.is_scarcest]
        if not scarcest or not self.explains:
            return WORKERS
        return DEPENDENCY if self.scope == ALL and len(self.visits.backends) > 1 else CORES

    def choices(self, margin: float = PLAUSIBLE) -> list[tuple[Law, ...]]:
        """Return combinations of plausible laws, one of each resource; the likeliest first."""
        plausible: list[list[Law]]
        if self.inner:
            plausible = [[Places(number) for number in (each.places, *each.others)] for each in self.inner]
        else:
            plausible = [[fitted.law for fitted in each.estimate.plausible(margin)] for each in self.resources]
        count = max(map(len, plausible), default=1)
        return [tuple(laws[choice if choice < len(laws) else 0] for laws in plausible) for choice in range(count)]

    @property
    def laws(self) -> tuple[Law, ...]:
        """The likeliest law of each resource; the places of each queue inside."""
        if self.inner:
            return tuple(Places(each.places) for each in self.inner)
        return tuple(each.estimate.best.law for each in self.resources)

    @cached_property
    def of_backend(self) -> Ints:
        """The resource of each backend, or its queue inside; -1: its services count as unshared."""
        codes = np.full(len(self.visits.backends), -1, np.int64)
        groups: Sequence[Resource | InnerQueue] = self.inner or self.resources
        for number, resource in enumerate(groups):
            codes[list(resource.backends)] = number
        return codes

    @property
    def notes(self) -> list[str]:
        """Sentences on what is shared, for people."""
        resources = self.resources
        if len(resources) > 1 and all(each.estimate is resources[0].estimate for each in resources):
            resources = (_of_all_alike(resources),)
        clauses = [clause_of(each, self.scope) for each in resources if each.is_shared]
        shared = [f"{clause[:1].upper()}{clause[1:]}." for clause in clauses]
        return [*shared, *(each.sentence for each in self.inner)]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "scope": self.scope,
            "resources": [each.to_dict() for each in self.resources],
            "inner_queues": [each.to_dict() for each in self.inner],
        }

    def demands(self, laws: tuple[Law, ...]) -> Floats:
        """Return how long each service would last alone, s, by visit; NaN where the service is unknown."""
        if self.inner:
            demands = np.maximum(service_ends(self.visits) - self.visits.busy_start, 0.0)
            for queue, law in zip(self.inner, laws, strict=True):
                demands[queue.rows] -= queue.waits_with(law)
            return demands
        demands = np.full(len(self.visits), np.nan)
        for rows, parts, law in zip(self._rows, self._parts, laws, strict=True):
            demands[rows] = parts.demands_under(law)
        return demands

    @cached_property
    def waits(self) -> Floats:
        """How long each service waits for what is shared, s, by visit, by the likeliest law; NaN where unknown."""
        if self.resources:
            return service_ends(self.visits) - self.visits.busy_start - self.demands(self.laws)
        waits = np.full(len(self.visits), np.nan)
        for queue in self.inner:
            waits[queue.rows] = queue.waits
        return waits

    @cached_property
    def _rows(self) -> list[Ints]:
        end = service_ends(self.visits)
        return [rows_of(self.visits, end, each.backends) for each in self.resources]

    @cached_property
    def _parts(self) -> list[SharedParts]:
        end = service_ends(self.visits)
        most = [most_in_progress(self.visits, each.backends) for each in self.resources]
        return [
            SharedParts.of(self.visits.busy_start[rows], end[rows], limit)
            for rows, limit in zip(self._rows, most, strict=True)
        ]


def _of_all_alike(resources: Sequence[Resource]) -> Resource:
    """Return one resource for several with the same law, with the means of their figures."""
    kind = "backend" if all(len(each.backends) == 1 for each in resources) else "host"

    def mean(name: str) -> float | None:
        values = [getattr(each, name) for each in resources]
        return None if None in values else float(np.mean(values))

    return replace(
        resources[0],
        name=f"each of {counted(len(resources), kind)}",
        busy=mean("busy"),
        workers_busy=mean("workers_busy"),
        slowdown=mean("slowdown") or 1.0,
    )


def clause_of(resource: Resource, scope: str) -> str:
    """Return what the services of a resource share, as a clause."""
    best, estimate = resource.estimate.best, resource.estimate
    law, name = best.law, resource.name
    if best.family == NONE:
        return f"services of {name} share nothing"
    if best.family == COHERENCE:
        return (
            f"services of {name} slow each other more, the more there are (contention {law.contention:.2g}, coherence "
            f"{law.coherence:.2g}); what they share does not show"
        )
    part = "" if law.share >= 1 else f"{law.share:.0%} of "
    busy = f"{resource.busy:.0%} busy" if resource.busy is not None else ""
    if law.capacity < ONE:
        what = "one core, or a lock"
    else:
        interval = f"(95 %: {estimate.low:.2g} to {estimate.high:.2g})"
        what = f"{law.capacity:.2g} cores, or as many places of something else {interval}"
        if scope == ALL:
            what = f"a dependency that serves {law.capacity:.2g} at a time {interval}"
    scarcest = ""
    if resource.is_scarcest:
        alone = "" if resource.workers_busy is None else f": workers alone would be {resource.workers_busy:.0%} busy"
        scarcest = f", which limits them{alone}"
    return (
        f"services of {name} share {part}{what}, {busy}{scarcest}; they take {resource.slowdown:.2g} × as long as alone"
    )


def rows_of(visits: Visits, end: Floats, backends: Sequence[int]) -> Ints:
    """Return the requests of some backends with a known service, in the order of their arrivals."""
    rows = np.sort(np.concatenate([visits.at_backend[code] for code in backends]), kind="stable")
    return rows[~np.isnan(end[rows]) & ~np.isnan(visits.busy_start[rows])]
