"""Whether services depend on the load, and what they share: each backend, each host, or all backends together.

The scope is chosen by likelihood. A law is used only if the demands under it pass the tests that the services failed
(``independence``); otherwise ``refused`` says why.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from sojourn.model.formatting import counted, printable
from sojourn.timeline.contention.courses import Course
from sojourn.timeline.contention.estimate import estimated, seems_shared
from sojourn.timeline.contention.independence import Independence, independence_of, route_of, service_ends
from sojourn.timeline.contention.inner_queue import InnerQueue, inner_queue_of
from sojourn.timeline.contention.resources import (
    ALL,
    BACKEND,
    DEPENDENCY,
    HOST,
    Contention,
    Resource,
    clause_of,
    most_in_progress,
    rows_of,
)
from sojourn.timeline.contention.shared_parts import SharedParts
from sojourn.timeline.contention.usual_speed import UsualSpeed, relative, usual_speed
from sojourn.timeline.stretches import LOOKED_AT
from sojourn.timeline.visits import FROM_INFERENCE, Visits

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

FEWEST = 300  # services of a resource
MOST_BACKENDS = 20
OTHERS = 0.05  # share of the services that may be at other backends
SUSPECTED, BEYOND_DOUBT = 5.0, 9.0  # gain of a law, where no test of services alone shows a dependence
CLEARLY = 6.0  # difference of logarithms of likelihoods from which on a wider scope is chosen
PASSES = 2  # estimates of the law, each with the factors of workers and of time from the one before
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
    elif sum(len(visits.at_backend[code]) for code in largest) < (1 - OTHERS) * len(visits):
        reason = "too many services are at backends with few requests to estimate what they share"
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
            parts = SharedParts.of(visits.busy_start[rows], end[rows], most_in_progress(visits, members))
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
    if len(of_hosts) < len(each):
        yield HOST, of_hosts
    if len(of_hosts) > 1:
        yield ALL, [(counted(len(each), "backend"), tuple(backends))]


def _busiest(visits: Visits, end: Floats, backends: Sequence[int]) -> tuple[float, float]:
    """Return the begin and the end, s, of the stretch with most services per time: ``LOOKED_AT`` services."""
    rows = rows_of(visits, end, backends)
    arrival, size = visits.arrival[rows], LOOKED_AT
    if len(rows) <= size:
        return -math.inf, math.inf
    spent = np.append(0.0, np.cumsum(end[rows] - visits.busy_start[rows]))
    seconds = np.maximum(arrival[size - 1 :] - arrival[: len(rows) - size + 1], 1e-9)
    first = int(((spent[size:] - spent[:-size]) / seconds).argmax())
    return float(arrival[first]), float(arrival[first + size - 1])


def _rows_within(visits: Visits, end: Floats, backends: Sequence[int], window: tuple[float, float]) -> Ints:
    """Return the requests of ``rows_of`` that arrived in a window, in the order of their starts."""
    rows = rows_of(visits, end, backends)
    rows = rows[(visits.arrival[rows] >= window[0]) & (visits.arrival[rows] <= window[1])]
    return rows[np.argsort(visits.busy_start[rows], kind="stable")]


def _resource(
    visits: Visits, end: Floats, name: str, backends: tuple[int, ...], window: tuple[float, float]
) -> Resource:
    rows = _rows_within(visits, end, backends, window)
    begin, ends = visits.busy_start[rows], end[rows]
    parts = SharedParts.of(begin, ends, most_in_progress(visits, backends))
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
    workers = most_in_progress(visits, backends)
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
