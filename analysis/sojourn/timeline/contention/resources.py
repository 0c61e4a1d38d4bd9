"""What the backends of a log share: estimated for each backend, for each host, and for all backends together.

The scope is chosen by likelihood. A law is used only if the demands under it pass the tests that the services failed
(``independence``); otherwise ``refused`` says why.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sojourn.model.formatting import counted, printable
from sojourn.queueing.speed_laws import SpeedLaw
from sojourn.timeline.contention.courses import Course
from sojourn.timeline.contention.estimate import (
    COHERENCE,
    NONE,
    PLAUSIBLE,
    Estimate,
    estimated,
    seems_shared,
)
from sojourn.timeline.contention.independence import Independence, independence_of, route_of, service_ends
from sojourn.timeline.contention.inner_queue import InnerQueue, inner_queue_of
from sojourn.timeline.contention.shared_parts import SharedParts
from sojourn.timeline.contention.usual_speed import UsualSpeed, relative, usual_speed
from sojourn.timeline.stretches import LOOKED_AT
from sojourn.timeline.visits import FROM_INFERENCE, Visits

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

BACKEND, HOST, ALL = "backend", "host", "all"
WORKERS, CORES, DEPENDENCY, PLACES = BOTTLENECKS = "workers", "cores", "dependency", "places"
FEWEST = 300  # services of a resource
MOST_BACKENDS = 20
SUSPECTED, BEYOND_DOUBT = 5.0, 9.0  # gain of a law, where no test of services alone shows a dependence
ONE = 1.05  # a capacity below is that of one
CLEARLY = 6.0  # difference of logarithms of likelihoods from which on a wider scope is chosen
PASSES = 2  # estimates of the law, each with the factors of workers and of time from the one before
UNKNOWN = 0.02  # share of services that may be unknown


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

    def law(self, choice: int, margin: float) -> SpeedLaw:
        """Return a plausible law; 0: the likeliest; ``margin``: as of ``Estimate.plausible``."""
        plausible = self.estimate.plausible(margin)
        return plausible[choice if choice < len(plausible) else 0].law

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

    @property
    def gain(self) -> float:
        """Largest difference of the logarithms of likelihoods to services that share nothing.

        Where some times are slower than others, whatever the load, it says nothing.
        """
        return max((each.estimate.gain for each in self.resources if not each.usual.moved), default=0.0)

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
            return PLACES
        scarcest = [each for each in self.resources if each.is_shared and each.is_scarcest]
        if not scarcest or not self.explains:
            return WORKERS
        return DEPENDENCY if self.scope == ALL and len(self.visits.backends) > 1 else CORES

    def choices(self, margin: float = PLAUSIBLE) -> list[tuple[SpeedLaw, ...]]:
        """Return combinations of plausible laws, one of each resource; the likeliest first."""
        count = max((len(each.estimate.plausible(margin)) for each in self.resources), default=1)
        return [tuple(each.law(choice, margin) for each in self.resources) for choice in range(count)]

    @cached_property
    def of_backend(self) -> Ints:
        """The resource of each backend; one without services has the first."""
        codes = np.zeros(len(self.visits.backends), np.int64)
        for number, resource in enumerate(self.resources):
            codes[list(resource.backends)] = number
        return codes

    @property
    def notes(self) -> list[str]:
        """Sentences on what is shared, for people."""
        clauses = [clause_of(each, self.scope) for each in self.resources if each.is_shared]
        shared = [f"{clause[:1].upper()}{clause[1:]}." for clause in clauses]
        return [*shared, *(each.sentence for each in self.inner)]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "scope": self.scope,
            "resources": [each.to_dict() for each in self.resources],
            "inner_queues": [each.to_dict() for each in self.inner],
        }

    def demands(self, laws: tuple[SpeedLaw, ...]) -> Floats:
        """Return how long each service would last alone, s, by visit; NaN where the service is unknown."""
        demands = np.full(len(self.visits), np.nan)
        for rows, parts, law in zip(self._rows, self._parts, laws, strict=True):
            demands[rows] = parts.demands_under(law)
        return demands

    @cached_property
    def waits(self) -> Floats:
        """How long each service waits for what is shared, s, by visit, by the likeliest law; NaN where unknown."""
        if self.resources:
            return service_ends(self.visits) - self.visits.busy_start - self.demands(self.choices()[0])
        waits = np.full(len(self.visits), np.nan)
        for queue in self.inner:
            waits[queue.rows] = queue.waits
        return waits

    @cached_property
    def _rows(self) -> list[Ints]:
        end = service_ends(self.visits)
        return [_rows_of(self.visits, end, each.backends) for each in self.resources]

    @cached_property
    def _parts(self) -> list[SharedParts]:
        end = service_ends(self.visits)
        most = [_most(self.visits, each.backends) for each in self.resources]
        return [
            SharedParts.of(self.visits.busy_start[rows], end[rows], limit)
            for rows, limit in zip(self._rows, most, strict=True)
        ]


@dataclass(frozen=True)
class LoadDependence:
    """Whether services depend on the load: the tests of services, and what they share."""

    independence: Independence
    contention: Contention | None
    visits: Visits = field(repr=False)

    @classmethod
    def of(cls, visits: Visits, hosts: Mapping[str, str] | None = None, *, closed_loop: bool = False) -> LoadDependence:
        """Test services, and estimate what they share; in a closed loop only the tests.

        Args:
            visits: with the columns route and worker.
            hosts: address of a backend -> name of its host; None: by the addresses.
            closed_loop: clients wait for their answers.
        """
        independence = independence_of(visits)
        contention = None if closed_loop else contention_of(visits, independence, hosts)
        return cls(independence, contention, visits)

    def possible(self, hosts: Mapping[str, str] | None = None) -> Contention | None:
        """Return what services may share, although they seem to share nothing."""
        return contention_of(self.visits, self.independence, hosts, anyway=True)

    @property
    def clauses(self) -> dict[str | None, str]:
        """Address of a backend -> how its services depend on the load, as a clause."""
        clauses = {each.upstream: each.clause for each in self.independence.dependences}
        contention = self.contention
        if contention is not None and contention.explains:
            for resource in contention.resources:
                names = [contention.visits.backends[code] for code in resource.backends]
                clauses |= dict.fromkeys(names if resource.is_shared else (), clause_of(resource, contention.scope))
            for queue in contention.inner:
                names = [contention.visits.backends[code] for code in queue.backends]
                clauses |= dict.fromkeys(names, queue.sentence.rstrip("."))
        return clauses

    @property
    def courses(self) -> tuple[Course, ...]:
        """Workers and times that are slower than usual, whatever the load; empty where that is not known."""
        contention = self.contention
        if contention is not None and not contention.in_doubt:
            return contention.courses
        return self.independence.courses

    @property
    def of_all(self) -> str | None:
        """What the services of all backends share, as a clause; None: nothing."""
        contention = self.contention
        if contention is not None and contention.explains and contention.bottleneck == DEPENDENCY:
            return clause_of(contention.resources[0], contention.scope)
        return None if self.independence.shared is None else self.independence.shared.clause


def contention_of(
    visits: Visits, independence: Independence, hosts: Mapping[str, str] | None = None, *, anyway: bool = False
) -> Contention | None:
    """Estimate what services share.

    Args:
        visits: with the columns route and worker.
        independence: of their services.
        hosts: address of a backend -> name of its host; None: by the addresses.
        anyway: estimate what services may share, although they seem to share nothing.

    Returns:
        The laws; None if services do not depend on the load.
    """
    dependent = bool(independence.dependences) or independence.shared is not None
    end = service_ends(visits)
    known = ~np.isnan(end) & ~np.isnan(visits.busy_start)
    largest = [code for code in range(len(visits.backends)) if known[visits.at_backend[code]].sum() >= FEWEST]
    largest = sorted(largest, key=lambda code: -len(visits.at_backend[code]))[:MOST_BACKENDS]
    reason = None
    if any(visits.workers.source[code] == FROM_INFERENCE for code in largest):
        reason = "services are inferred with the waits"
    elif not largest or known.mean() < 1 - UNKNOWN:
        reason = "too few services are known to estimate what they share"
    if reason is not None:
        return Contention(BACKEND, (), reason, visits) if dependent else None
    window = _busiest(visits, end, largest)
    if not dependent and not anyway and not _noticed(visits, end, largest, window, hosts):
        return None
    fitted = {
        scope: tuple(_resource(visits, end, name, backends, window) for name, backends in groups)
        for scope, groups in _scopes(visits, largest, hosts)
    }
    scope = _likeliest(fitted)
    contention = Contention(scope, fitted[scope], None, visits)
    if not dependent and contention.gain < BEYOND_DOUBT:
        return replace(contention, in_doubt=True) if anyway or contention.gain > SUSPECTED else None
    left = independence_of(visits, contention.demands(contention.choices()[0]))
    if left.dependences or left.shared is not None:
        if inner := _inner_queues(visits, end, largest, left):
            return Contention(BACKEND, (), None, visits, inner=inner)
        reason = "no law of speed and no queue inside the app explains it: the log cannot tell waiting from work there"
        return Contention(scope, fitted[scope], reason, visits)
    return replace(contention, courses=left.courses)


def _inner_queues(visits: Visits, end: Floats, backends: Sequence[int], left: Independence) -> tuple[InnerQueue, ...]:
    """Return the queues inside the services of the backends that depend on the load; empty if one has none."""
    dependent = {each.upstream for each in left.dependences}
    own = [code for code in backends if visits.backends[code] in dependent or left.shared is not None]
    name = {code: printable(visits.backends[code] or "a backend", 60) for code in backends}
    if len(own) > 1:
        together = inner_queue_of(visits, end, own, counted(len(own), "backend"))
        if together is not None:
            return (together,)
    queues = [inner_queue_of(visits, end, (code,), name[code]) for code in own]
    each = tuple(queue for queue in queues if queue is not None)
    return each if len(each) == len(own) else ()


def _noticed(
    visits: Visits, end: Floats, backends: Sequence[int], window: tuple[float, float], hosts: Mapping[str, str] | None
) -> bool:
    """Return whether services of a resource seem to share something, although no test of them says so."""
    for _, groups in _scopes(visits, backends, hosts):
        for _, members in groups:
            rows = _rows_within(visits, end, members, window)
            parts = SharedParts.of(visits.busy_start[rows], end[rows], _most(visits, members))
            route = route_of(visits, rows)
            if parts.most > 1 and seems_shared(parts, route, np.ones(len(rows))):
                return True
    return False


def host_of(address: str | None) -> str:
    """Return the host of an address, with or without a port; sockets of files are on one host."""
    if not address or address.startswith("unix:"):
        return ""
    if address.startswith("["):
        return address.partition("]")[0].lstrip("[")
    return address.rpartition(":")[0] if address.count(":") == 1 else address


def _scopes(
    visits: Visits, backends: Sequence[int], hosts: Mapping[str, str] | None
) -> Iterator[tuple[str, list[tuple[str, tuple[int, ...]]]]]:
    """Yield each scope with the name and the backends of each of its resources; one that adds nothing is left out."""
    names = {code: printable(visits.backends[code] or "a backend", 60) for code in backends}
    each: list[tuple[str, tuple[int, ...]]] = [(names[code], (code,)) for code in backends]
    by_host: dict[str, list[int]] = {}
    for code in backends:
        address = visits.backends[code] or ""
        by_host.setdefault((hosts or {}).get(address, host_of(address)), []).append(code)
    of_hosts = [(f"host {name}" if name else "this host", tuple(codes)) for name, codes in by_host.items()]
    yield BACKEND, each
    if 1 < len(of_hosts) < len(each):
        yield HOST, of_hosts
    if len(each) > 1:
        alone = len(of_hosts) == 1
        yield ALL, [(of_hosts[0][0] if alone else counted(len(each), "backend"), tuple(backends))]


def _busiest(visits: Visits, end: Floats, backends: Sequence[int]) -> tuple[float, float]:
    """Return the begin and the end, s, of the stretch with most services per time: ``LOOKED_AT`` services."""
    rows = _rows_of(visits, end, backends)
    arrival, size = visits.arrival[rows], LOOKED_AT
    if len(rows) <= size:
        return -math.inf, math.inf
    spent = np.append(0.0, np.cumsum(end[rows] - visits.busy_start[rows]))
    seconds = np.maximum(arrival[size - 1 :] - arrival[: len(rows) - size + 1], 1e-9)
    first = int(((spent[size:] - spent[:-size]) / seconds).argmax())
    return float(arrival[first]), float(arrival[first + size - 1])


def _rows_of(visits: Visits, end: Floats, backends: Sequence[int]) -> Ints:
    """Return the requests of some backends with a known service, in the order of their arrivals."""
    rows = np.sort(np.concatenate([visits.at_backend[code] for code in backends]), kind="stable")
    return rows[~np.isnan(end[rows]) & ~np.isnan(visits.busy_start[rows])]


def _rows_within(visits: Visits, end: Floats, backends: Sequence[int], window: tuple[float, float]) -> Ints:
    """Return the requests of ``_rows_of`` that arrived in a window, in the order of their starts."""
    rows = _rows_of(visits, end, backends)
    rows = rows[(visits.arrival[rows] >= window[0]) & (visits.arrival[rows] <= window[1])]
    return rows[np.argsort(visits.busy_start[rows], kind="stable")]


def _most(visits: Visits, backends: Sequence[int]) -> int | None:
    """Return how many services can be in progress; None: there is no limit."""
    if any(visits.workers.in_one_worker(code) > 1 for code in backends):
        return None
    return int(visits.workers.count[list(backends)].sum())


def _resource(
    visits: Visits, end: Floats, name: str, backends: tuple[int, ...], window: tuple[float, float]
) -> Resource:
    rows = _rows_within(visits, end, backends, window)
    begin, ends = visits.busy_start[rows], end[rows]
    parts = SharedParts.of(begin, ends, _most(visits, backends))
    route = route_of(visits, rows)
    worker = visits.column_at("worker", rows) if "worker" in visits.rows.columns else None
    usual = UsualSpeed(np.ones(len(rows)), np.ones(len(rows)), moved=False)
    estimate = estimated(parts, route, usual.factor)
    for _ in range(PASSES - 1):
        demand = parts.demands_under(estimate.best.law)
        usual = usual_speed(relative(demand, route), route, worker)
        if not usual.moved and not usual.workers:
            break
        estimate = estimated(parts, route, usual.factor)
    law = estimate.best.law
    demand = parts.demands_under(law)
    seconds = float(ends.max() - begin.min())
    busy = None
    if math.isfinite(law.capacity) and seconds > 0:
        busy = float(demand.sum()) * law.share / (seconds * law.capacity)
    workers = _most(visits, backends)
    workers_busy = None
    if workers is not None and seconds > 0:
        alone = np.nan_to_num(visits.held[rows] - (ends - begin)) + demand
        workers_busy = float(alone.sum()) / (seconds * workers)
    return Resource(
        name=name,
        backends=backends,
        estimate=estimate,
        rate=len(rows) / seconds if seconds > 0 else 0.0,
        busy=busy,
        workers_busy=workers_busy,
        slowdown=float((ends - begin).sum() / max(demand.sum(), 1e-9)),
        usual=usual,
    )


def _likeliest(fitted: Mapping[str, tuple[Resource, ...]]) -> str:
    """Return the scope whose laws are the likeliest together; a wider one only if it is so clearly."""
    value = {
        scope: sum(each.estimate.best.likelihood - each.estimate.unshared for each in resources)
        for scope, resources in fitted.items()
    }
    best = BACKEND
    for scope in (HOST, ALL):
        if scope in value and value[scope] > value[best] + CLEARLY:
            best = scope
    return best


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
        what = "one at a time: one core, or a lock"
    else:
        each = "cores" if scope in (BACKEND, HOST) else "at a time"
        what = f"{law.capacity:.2g} {each} (95 %: {estimate.low:.2g} to {estimate.high:.2g})"
    scarcest = ""
    if resource.is_scarcest:
        alone = "" if resource.workers_busy is None else f": workers alone would be {resource.workers_busy:.0%} busy"
        scarcest = f", which limits them{alone}"
    return (
        f"services of {name} share {part}{what}, {busy}{scarcest}; they take {resource.slowdown:.2g} × as long as alone"
    )
