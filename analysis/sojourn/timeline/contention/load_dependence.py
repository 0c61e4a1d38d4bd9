"""Whether services depend on the load, and what they share: each backend, each host, or all backends together.

The scope is chosen by likelihood. A law is used only if the demands under it pass the tests that the services failed
(``independence``); otherwise ``refused`` says why.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from sojourn.model.arrays import Bools, Floats, Ints
from sojourn.model.formatting import counted, printable
from sojourn.queueing.speed_laws import NOTHING_SHARED
from sojourn.timeline.contention.courses import Course
from sojourn.timeline.contention.estimate import SIMPLER, Estimate, coarse_gain, estimated, estimated_on, quick_gain
from sojourn.timeline.contention.independence import Independence, independence_of, route_of, service_ends, worker_of
from sojourn.timeline.contention.inner_queue import InnerQueue, inner_queue_of
from sojourn.timeline.contention.likelihood import Likelihood
from sojourn.timeline.contention.resources import (
    ALL,
    BACKEND,
    DEPENDENCY,
    HOST,
    Contention,
    Resource,
    clause_of,
    rows_of,
)
from sojourn.timeline.contention.shared_parts import SharedParts, most_in_progress
from sojourn.timeline.contention.usual_speed import UsualSpeed, relative, usual_speed
from sojourn.timeline.stretches import LOOKED_AT, densest
from sojourn.timeline.visits import FROM_INFERENCE, Visits

FEWEST = 300  # services of a resource
MOST_BACKENDS = 20
OTHERS = 0.05  # share of the services that may be at other backends
NOTICED = 3.0  # gain of the likeliest of a few laws, from which on the likeliest of all is looked for
SUSPECTED, BEYOND_DOUBT = 5.0, 9.0  # gain of a law, where no test of services alone shows a dependence
CLEARLY = 6.0  # difference of logarithms of likelihoods from which on a wider scope is chosen
OF_A_LAW = 3.0  # the same from which on groups have a law each
UNKNOWN = 0.02  # share of services that may be unknown


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

    def on_cores(self, cores: int, hosts: Mapping[str, str] | None = None) -> Contention | None:
        """Return what the services of each host share if some of their time is spent on a number of cores.

        Args:
            cores: of each host.
            hosts: address of a backend -> name of its host; None: by the addresses.

        Returns:
            The laws, of each share of computing that is plausible; None if too few services are known.
        """
        end = service_ends(self.visits)
        largest = _with_services(self.visits, end)
        if not largest:
            return None
        groups = _Groups(self.visits, end, (-math.inf, math.inf))
        return Contention(HOST, groups.on_cores(_of_hosts(self.visits, largest, hosts), cores), None, self.visits)

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
    """Estimate what services share; None if they do not depend on the load.

    ``hosts``: address of a backend -> name of its host; None: by the addresses. ``anyway``: estimate what services may
    share, although they seem to share nothing.
    """
    dependent = bool(independence.dependences) or independence.shared is not None
    end = service_ends(visits)
    largest = _with_services(visits, end)
    reason = None
    if any(visits.workers.source[code] == FROM_INFERENCE for code in largest):
        reason = "services are inferred with the waits"
    elif not largest or _served(visits, end).mean() < 1 - UNKNOWN:
        reason = "too few services are known to estimate what they share"
    elif sum(len(visits.at_backend[code]) for code in largest) < (1 - OTHERS) * len(visits):
        reason = "too many services are at backends with few requests to estimate what they share"
    if reason is not None:
        return Contention(BACKEND, (), reason, visits) if dependent else None
    groups = _Groups(visits, end, _busiest(visits, end, largest))
    scopes = dict(_scopes(visits, largest, hosts))
    scope = groups.scope_of(scopes, anyway=dependent or anyway)
    if scope is None:
        return None
    contention = Contention(scope, groups.resources(scopes[scope]), None, visits)
    gain = max(contention.gain(moved=False), contention.gain(moved=True))
    if not dependent and not anyway and gain <= SUSPECTED:
        return None
    unlimited = [code for code in largest if code in visits.workers.several_at_once]
    if unlimited and gain > BEYOND_DOUBT:
        # The same waits may be those for a place of a pool: what is likelier counts.
        inner = _inner_queues(visits, end, unlimited)
        if inner and groups.gain_of_queues(inner) > sum(each.estimate.gain for each in contention.resources):
            return Contention(BACKEND, (), None, visits, inner=inner)
    if not dependent and contention.gain(moved=False) < BEYOND_DOUBT:
        return replace(contention, in_doubt=True)
    return _tested(contention, end, largest)


def _served(visits: Visits, end: Floats) -> Bools:
    """Return whether the service of each visit is known; ``end``: of each, s."""
    return ~np.isnan(end) & ~np.isnan(visits.busy_start)


def _with_services(visits: Visits, end: Floats) -> list[int]:
    """Return the backends with enough services of a known duration, the largest first."""
    served = _served(visits, end)
    largest = [code for code in range(len(visits.backends)) if served[visits.at_backend[code]].sum() >= FEWEST]
    return sorted(largest, key=lambda code: -len(visits.at_backend[code]))[:MOST_BACKENDS]


def _tested(contention: Contention, end: Floats, backends: Sequence[int]) -> Contention:
    """Return the laws if the demands under them do not depend on the load; else queues inside, or the refusal."""
    visits = contention.visits
    left = independence_of(visits, contention.demands(contention.laws))
    if not left.dependences and left.shared is None:
        return replace(contention, courses=left.courses)
    upstreams = {each.upstream for each in left.dependences}
    dependent = [code for code in backends if visits.backends[code] in upstreams or left.shared is not None]
    if inner := _inner_queues(visits, end, dependent):
        return Contention(BACKEND, (), None, visits, inner=inner)
    reason = "no law of speed and no queue inside the app explains it: the log cannot tell waiting from work there"
    return replace(contention, refused=reason)


def _inner_queues(visits: Visits, end: Floats, backends: Sequence[int]) -> tuple[InnerQueue, ...]:
    """Return the queues inside the services of backends: one for all, or one each; empty if one has none."""
    if len(backends) > 1:
        together = inner_queue_of(visits, end, backends, counted(len(backends), "backend"))
        if together is not None:
            return (together,)
    names = [printable(visits.backends[code] or "a backend", 60) for code in backends]
    queues = [inner_queue_of(visits, end, (code,), name) for code, name in zip(backends, names, strict=True)]
    each = tuple(queue for queue in queues if queue is not None)
    return each if len(each) == len(backends) else ()


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
    names = [printable(visits.backends[code] or "a backend", 60) for code in backends]
    each: list[tuple[str, tuple[int, ...]]] = [(name, (code,)) for name, code in zip(names, backends, strict=True)]
    of_hosts = _of_hosts(visits, backends, hosts)
    yield BACKEND, each
    if len(of_hosts) < len(each):
        yield HOST, of_hosts
    if len(of_hosts) > 1:
        yield ALL, [(counted(len(each), "backend"), tuple(backends))]


def _of_hosts(
    visits: Visits, backends: Sequence[int], hosts: Mapping[str, str] | None
) -> list[tuple[str, tuple[int, ...]]]:
    """Return the name and the backends of each host."""
    by_host: dict[str, list[int]] = {}
    for code in backends:
        address = visits.backends[code] or ""
        by_host.setdefault((hosts or {}).get(address, host_of(address)), []).append(code)
    return [(f"host {name}" if name else "this host", tuple(codes)) for name, codes in by_host.items()]


def _busiest(visits: Visits, end: Floats, backends: Sequence[int]) -> tuple[float, float]:
    """Return the begin and the end, s, of the stretch with most services per time: ``LOOKED_AT`` services."""
    rows = rows_of(visits, end, backends)
    arrival = visits.arrival[rows]
    if len(rows) <= LOOKED_AT:
        return -math.inf, math.inf
    first = densest(arrival, end[rows] - visits.busy_start[rows])
    return float(arrival[first]), float(arrival[first + LOOKED_AT - 1])


@dataclass(frozen=True)
class _Services:
    """Services of a resource, in the order of their starts: as visits, as parts, and code of their routes."""

    rows: Ints
    parts: SharedParts
    route: Ints

    @classmethod
    def joined(cls, each: Sequence[_Services]) -> _Services:
        """Return the services of several resources that have the same law."""
        if len(each) == 1:
            return each[0]
        return cls(
            np.concatenate([services.rows for services in each]),
            SharedParts.joined([services.parts for services in each]),
            np.concatenate([services.route for services in each]),
        )

    @cached_property
    def likelihood(self) -> Likelihood:
        """Of laws, if all services are as fast as usual."""
        return Likelihood(self.parts, self.route, np.ones(len(self.rows)))

    @property
    def unshared(self) -> float:
        """Logarithm of the likelihood if nothing is shared."""
        return self.likelihood.log_of(NOTHING_SHARED.speeds(self.parts.most))

    @cached_property
    def coarse_gain(self) -> float:
        """Of the likeliest of a few laws."""
        return coarse_gain(self.likelihood) if self.parts.most > 1 else 0.0

    @cached_property
    def gain(self) -> float:
        """Of the likeliest law with one parameter."""
        return quick_gain(self.likelihood) if self.parts.most > 1 else 0.0


def _clear(gains: Iterable[float]) -> float:
    """Return the sum of the gains of laws that are preferred to none."""
    return sum(gain for gain in gains if gain > SIMPLER)


class _Groups:
    """Groups of backends that may share a resource; scopes are compared by the arrivals within ``window``, s."""

    def __init__(self, visits: Visits, end: Floats, window: tuple[float, float]) -> None:
        self._visits, self._end, self._window = visits, end, window
        self._services: dict[tuple[tuple[int, ...], bool], _Services] = {}
        self._fitted: dict[tuple[int, ...], tuple[Estimate, UsualSpeed]] = {}

    def scope_of(self, scopes: Mapping[str, list[tuple[str, tuple[int, ...]]]], *, anyway: bool) -> str | None:
        """Return the likeliest scope; None, unless ``anyway``, where a few laws say that nothing is shared.

        These cost a fraction of the estimate: those with one parameter are nearly as likely as the likeliest of all.
        """
        within = self._within
        if not anyway and all(
            _clear(within(members).coarse_gain for _, members in groups) <= NOTICED for groups in scopes.values()
        ):
            return None
        scope = self.likeliest(scopes)
        gains = (within(members).gain for _, members in scopes[scope])
        return scope if anyway or (_clear(gains) > SUSPECTED and self.is_suspected(scopes[scope])) else None

    def likeliest(self, scopes: Mapping[str, list[tuple[str, tuple[int, ...]]]]) -> str:
        """Return the scope whose laws are the likeliest together; a wider one only if it is so clearly."""
        best, gain = BACKEND, -math.inf
        for scope, groups in scopes.items():
            value = sum(self._within(members).gain for _, members in groups) if len(scopes) > 1 else 0.0
            if value > gain + CLEARLY:
                best, gain = scope, value
        return best

    def is_suspected(self, groups: Sequence[tuple[str, tuple[int, ...]]]) -> bool:
        """Return whether a group has a law whose gain is beyond ``SUSPECTED``, or all may have one together.

        Of many groups some seem to share something by chance: only their laws are estimated.
        """
        if len(groups) < 2 or _alike([self._within(members) for _, members in groups]):
            return True
        noticed = [members for _, members in groups if self._all(members).coarse_gain > NOTICED - SIMPLER]
        return any(self._of_own(members)[0].gain > SUSPECTED for members in noticed)

    def resources(self, groups: Sequence[tuple[str, tuple[int, ...]]]) -> tuple[Resource, ...]:
        """Estimate the law of each group: one for all where these are alike."""
        each = [self._within(members) for _, members in groups]
        if len(groups) > 1 and _alike(each):
            estimate, usual = self._estimated(each)
            estimates, usuals = [estimate] * len(groups), usual
        else:
            each = [self._all(members) for _, members in groups]
            fitted = [self._of_own(members) for _, members in groups]
            estimates, usuals = [estimate for estimate, _ in fitted], [usual for _, usual in fitted]
        return tuple(
            self._resource(name, members, services, estimate, usual)
            for (name, members), services, estimate, usual in zip(groups, each, estimates, usuals, strict=True)
        )

    def on_cores(self, groups: Sequence[tuple[str, tuple[int, ...]]], cores: int) -> tuple[Resource, ...]:
        """Estimate which share of the services of each group computes, on a number of cores."""
        estimates = []
        for name, members in groups:
            services = self._all(members)
            estimate = estimated_on(services.likelihood, cores)
            estimates.append(self._resource(name, members, services, estimate, self._usual(services, estimate)))
        return tuple(estimates)

    def gain_of_queues(self, queues: Sequence[InnerQueue]) -> float:
        """Return the gain of queues inside the app: first come, first served, with services of their own."""
        visits, total = self._visits, 0.0
        for queue in queues:
            waits = np.full(len(visits), np.nan)
            waits[queue.rows] = queue.waits
            rows = self._within(queue.backends).rows
            rows = rows[~np.isnan(waits[rows])]
            begin, end, route = visits.busy_start[rows], self._end[rows], route_of(visits, rows)
            with_queue, without = (
                _Services(rows, SharedParts.of(start, np.maximum(end, start)), route).unshared
                for start in (begin + waits[rows], begin)
            )
            total += with_queue - without
        return total

    def _of_own(self, members: tuple[int, ...]) -> tuple[Estimate, UsualSpeed]:
        """Return the law of the services of backends, and what else they are slower by."""
        if members not in self._fitted:
            estimate, (usual,) = self._estimated([self._all(members)])
            self._fitted[members] = estimate, usual
        return self._fitted[members]

    def _within(self, members: tuple[int, ...]) -> _Services:
        """Return the services of backends that arrived in the window."""
        return self._selected(members, own=False)

    def _all(self, members: tuple[int, ...]) -> _Services:
        """Return the services of backends in their own busiest stretch."""
        return self._selected(members, own=True)

    def _selected(self, members: tuple[int, ...], *, own: bool) -> _Services:
        """Return the services of backends in their ``own`` stretch or in the window, computed once."""
        if (members, own) not in self._services:
            visits = self._visits
            rows = rows_of(visits, self._end, members)
            begin, end = _busiest(visits, self._end, members) if own else self._window
            rows = rows[(visits.arrival[rows] >= begin) & (visits.arrival[rows] <= end)]
            rows = rows[np.argsort(visits.busy_start[rows], kind="stable")]
            parts = SharedParts.of(visits.busy_start[rows], self._end[rows], most_in_progress(visits, members))
            self._services[members, own] = _Services(rows, parts, route_of(visits, rows))
        return self._services[members, own]

    def _estimated(self, each: Sequence[_Services]) -> tuple[Estimate, list[UsualSpeed]]:
        """Return the law of services of one or several resources, and what else they are slower by."""
        together = _Services.joined(each)
        estimate = estimated(together.likelihood)
        usual = [self._usual(services, estimate) for services in each]
        if not any(one.moved or one.workers for one in usual):
            return estimate, usual
        factor = np.concatenate([one.factor for one in usual])
        return estimated(Likelihood(together.parts, together.route, factor)), usual

    def _usual(self, services: _Services, estimate: Estimate) -> UsualSpeed:
        demand = services.parts.demands_under(estimate.best.law)
        worker = worker_of(self._visits, services.rows)
        return usual_speed(relative(demand, services.route), services.route, worker)

    def _resource(
        self, name: str, members: tuple[int, ...], services: _Services, estimate: Estimate, usual: UsualSpeed
    ) -> Resource:
        visits, rows, law = self._visits, services.rows, estimate.best.law
        begin, end = visits.busy_start[rows], self._end[rows]
        demand = services.parts.demands_under(law)
        seconds = float(end.max() - begin.min())
        busy = None
        if math.isfinite(law.capacity) and seconds > 0:
            busy = float(demand.sum()) * law.share / (seconds * law.capacity)
        workers, workers_busy = most_in_progress(visits, members), None
        if workers is not None and seconds > 0:
            alone = np.nan_to_num(visits.held[rows] - (end - begin)) + demand
            workers_busy = float(alone.sum()) / (seconds * workers)
        return Resource(
            name=name,
            backends=members,
            estimate=estimate,
            rate=len(rows) / seconds if seconds > 0 else 0.0,
            busy=busy,
            workers_busy=workers_busy,
            slowdown=float((end - begin).sum() / max(demand.sum(), 1e-9)),
            usual=usual,
        )


def _alike(each: Sequence[_Services]) -> bool:
    """Return whether one law for all resources is as likely as one for each."""
    if len({services.parts.most for services in each}) > 1:
        return False
    return _Services.joined(each).gain + OF_A_LAW * (len(each) - 1) >= sum(services.gain for services in each)
