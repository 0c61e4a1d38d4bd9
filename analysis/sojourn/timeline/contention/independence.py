"""Whether the service of a request depends on how many others are in service: something is shared.

Where each worker works for itself, the service that begins now does not depend on the number of others in service, nor
on the number waiting. Processors, locks, a database, a cache and an interpreter's lock make it depend, and then a
replay of measured services with another number of workers is wrong.

The test is that of Kruskal & Wallis (1952): services are ranked within their route, and the mean rank must be the same
in each cell (others in service × requests waiting, at the start):

    Q = Σ n_k (mean rank of cell k)² / variance      chi-square distributed for independent services

What changes services by itself is removed first: the course of time, and workers of different speed. Services that are
slow one after another, or together, depend on something as well.

A test of ranks recognises effects of any size, also those of a busy machine on services that are nearly constant. A
dependence whose effect on the mean service is smaller than ``EFFECT`` changes no prediction, and is none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sojourn.estimation.checks import correlation_of
from sojourn.model.arrays import Floats, Ints
from sojourn.model.one_worker import SLACK
from sojourn.model.parallel import in_threads
from sojourn.timeline.classes import classes_of
from sojourn.timeline.contention.courses import Course, courses_of
from sojourn.timeline.contention.usual_speed import UsualSpeed, means, relative, usual_speed
from sojourn.timeline.stretches import LOOKED_AT, busiest
from sojourn.timeline.visits import FROM_INFERENCE, Visits

FEWEST = 300  # requests of a backend
MOST_BACKENDS = 20
IN_CELL = 30  # requests of a cell
DEVIATIONS, MARGIN = 4.0, 10.0  # Q must exceed its mean by so many standard deviations, and by this
CORRELATION = 0.06
SIGNIFICANT = 4.5  # standard deviations
RESOLUTION = 1e-3  # of the mean service: instants are known to a microsecond or a millisecond
OF_DEMANDS = 1e-2  # the same of a demand: it has the error of the law, too
VERY_SLOW = 0.98  # quantile within a route
EFFECT = 0.02  # of the mean service
OUTLIER, MUCH_SLOWER = 3.0, 1.5  # times the mean service of the route
TOGETHER, TOGETHER_DEVIATIONS = 5.0, 10.0

STATE, ALL_BACKENDS, IN_TURN, SLOW_TOGETHER = "state", "all_backends", "in_turn", "slow_together"


@dataclass(frozen=True)
class Dependence:
    """Services of a backend that depend on the load.

    Attributes:
        upstream: address of the backend.
        kind: ``state`` (requests in service and waiting at the start), ``all_backends`` (requests in service at the
            other backends), ``in_turn`` (the service before), ``slow_together``.
        statistic, limit: of the test; it depends if the statistic is above the limit.
        ratio: mean service with ``high`` requests in service or more, to that with ``low`` or fewer, for equal routes.
        low, high: the numbers of requests that ``ratio`` compares; None without a ratio.
    """

    upstream: str | None
    kind: str
    statistic: float
    limit: float
    ratio: float | None = None
    low: int | None = None
    high: int | None = None

    @property
    def clause(self) -> str:
        """What depends, and on what, as a clause."""
        if self.kind == SLOW_TOGETHER:
            return (
                "slow services come together: requests wait for something that they share (a cache, a lock), or all "
                "workers stood still at times"
            )
        if self.kind == IN_TURN:
            return "a service resembles the one that began before it: something is shared"
        if self.kind == ALL_BACKENDS:
            return "service depends on the requests in service at other backends: something is shared (a database)"
        if self.ratio is not None and self.ratio > 1:
            return (
                f"service takes {self.ratio:.2g} × as long with {self.high} in service as with {self.low}: something "
                "is shared (processors, a lock, a database)"
            )
        return "service depends on the requests that are in service or waiting when it begins"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return dict(self.__dict__)


@dataclass(frozen=True)
class Independence:
    """The result of the test.

    Attributes:
        tested: whether a backend has enough requests with a measured service.
        dependences: one for each backend whose services depend on the load, the largest backend first.
        shared: a dependence on the requests in service at other backends, if there is one.
        courses: workers and times that are slower than usual, whatever the load; they are removed before the test.
    """

    tested: bool
    dependences: tuple[Dependence, ...] = ()
    shared: Dependence | None = None
    courses: tuple[Course, ...] = ()


def independence_of(visits: Visits, demands: Floats | None = None) -> Independence:
    """Test the backends, each alone and then all together; those with few requests are not tested.

    Of an inferred queue, slow services that come together are a dependence; the inference has its own tests for others.
    ``demands``: s, per visit, tested instead of the services: how long each would last if no other were in progress.
    """
    backends = _of_backends(visits, demands)
    every = [each for one in backends for each in one.dependences]
    together = _together(backends)
    shared = next((each for each in every if each.kind == ALL_BACKENDS), together)
    first = (
        one.dependences[0] if one.dependences else together and replace(together, upstream=one.upstream)
        for one in backends
    )
    return Independence(
        any(not one.inferred for one in backends), tuple(each for each in first if each is not None), shared,
        tuple(course for one in backends for course in one.courses),
    )  # fmt: skip


@dataclass(frozen=True)
class _OfBackend:
    """The dependences of a backend; and the ranks of its services and of the requests in service elsewhere."""

    upstream: str | None
    dependences: list[Dependence]
    elsewhere: tuple[Floats, Floats] | None
    inferred: bool = False
    courses: tuple[Course, ...] = ()


def _of_backends(visits: Visits, demands: Floats | None) -> list[_OfBackend]:
    """Return what each backend shows that is tested, the largest first."""
    end = service_ends(visits)
    has_service = ~np.isnan(end) & ~np.isnan(visits.busy_start)
    members = [rows[has_service[rows]] for rows in visits.at_backend]
    all_instants = None
    if len(members) > 1:
        all_instants = tuple(np.sort(each[has_service], kind="stable") for each in (visits.busy_start, end))

    def tested(code: int) -> _OfBackend:
        services = _services(visits, members[code], all_instants, demands)
        one = _dependences(visits.backends[code], services, int(visits.workers.count[code]))
        one = replace(one, courses=tuple(courses_of(one.upstream, visits.base, services.begin, services.usual)))
        if visits.workers.source[code] != FROM_INFERENCE:
            return one
        # What all workers waited for together looks like services there.
        together = [each for each in one.dependences if each.kind == SLOW_TOGETHER]
        return _OfBackend(one.upstream, together, None, inferred=True)

    largest = sorted(range(len(members)), key=lambda number: -len(members[number]))[:MOST_BACKENDS]
    return in_threads(tested, [code for code in largest if len(members[code]) >= FEWEST])


def _together(backends: Sequence[_OfBackend]) -> Dependence | None:
    """Return the dependence on requests in service elsewhere that all backends together show."""
    pairs = [one.elsewhere for one in backends if one.elsewhere is not None]
    if len(pairs) < 2:
        return None
    services, elsewhere = (np.concatenate(side) for side in zip(*pairs, strict=True))
    bound = max(CORRELATION, SIGNIFICANT / math.sqrt(len(services)))
    value = abs(correlation_of(services, elsewhere))
    return Dependence(None, ALL_BACKENDS, value, bound) if value > bound else None


@dataclass(frozen=True)
class _Services:
    """Services of one backend in the order of their starts.

    ``in_service``, ``waiting``: other requests at the start; ``elsewhere``: in service at other backends, or None.
    ``begin``: s; ``norm``: relative to the mean of the route; ``usual``: by what it is slower, other than by the load;
    ``resolution``: of ``norm``.
    """

    begin: Floats
    norm: Floats
    usual: UsualSpeed
    route: Ints
    in_service: Ints
    waiting: Ints
    elsewhere: Ints | None
    resolution: float


def _services(
    visits: Visits, members: Ints, all_instants: tuple[Floats, ...] | None, demands: Floats | None
) -> _Services:
    """Return the services of a backend; ``all_instants``: sorted begins and ends of all backends, or None."""
    ends = service_ends(visits)
    members = members[busiest(visits.arrival[members], ends[members])]
    # Requests of one start are in random order: visits have them in the order of their ends.
    mixed = np.random.default_rng(0).permutation(members)
    order = mixed[np.argsort(visits.busy_start[mixed], kind="stable")]
    begin, end = visits.busy_start[order], ends[order]
    # A service that is shorter than the slack has ended when it begins.
    in_service = np.searchsorted(begin, begin, "left") - np.searchsorted(np.sort(end), begin + SLACK, "right")
    in_service = np.maximum(in_service, 0)
    waiting = np.searchsorted(np.sort(visits.arrival[order]), begin, "right") - np.searchsorted(begin, begin, "right")
    some = slice(max(len(order) - LOOKED_AT, 0), None)
    elsewhere = None
    if all_instants is not None:
        begins, ends = all_instants
        elsewhere = np.searchsorted(begins, begin[some], "left") - np.searchsorted(ends, begin[some] + SLACK, "right")
        elsewhere = elsewhere - in_service[some]
    route = route_of(visits, order[some])
    seconds = (end - begin)[some] if demands is None else demands[order[some]]
    resolution = RESOLUTION if demands is None else OF_DEMANDS
    norm = relative(seconds, route)
    usual = usual_speed(norm, route, worker_of(visits, order[some]))
    return _Services(
        begin[some], norm, usual, route, in_service[some], np.maximum(waiting[some], 0), elsewhere, resolution
    )


def route_of(visits: Visits, rows: Ints) -> Ints:
    """Return the route of some visits, as codes; 0 for all where routes were not read."""
    if "route" not in visits.rows.columns:
        return np.zeros(len(rows), np.int64)
    return classes_of(visits.column_at("route", rows))[0]


def worker_of(visits: Visits, rows: Ints) -> pl.Series | None:
    """Return the worker values of some visits; None where workers were not read."""
    return visits.column_at("worker", rows) if "worker" in visits.rows.columns else None


def service_ends(visits: Visits) -> Floats:
    """Return the end of each service, s: the response headers, or the release where these are not known."""
    return visits.busy_end if visits.phases is None else np.fmin(visits.phases.headers, visits.evident_end)


def _dependences(upstream: str | None, services: _Services, workers: int) -> _OfBackend:
    n = len(services.norm)
    adjusted = services.norm / services.usual.factor
    rank = _ranked(adjusted, services.route, services.resolution)
    dependent = []
    cell = np.clip(services.in_service, 0, max(workers, 1) - 1) * 3 + np.digitize(services.waiting, [1, 4])
    statistic, cells = _between_cells(rank - means(rank, np.arange(n) * 10 // n), cell)
    limit = cells + DEVIATIONS * math.sqrt(2 * cells) + MARGIN
    if cells > 0 and statistic > limit and _effect(adjusted, cell) > EFFECT:
        dependent.append(Dependence(upstream, STATE, statistic, limit, *_ratio(adjusted, services.in_service)))
    leveled = services.norm / services.usual.worker / np.maximum(services.usual.course, 1e-12)
    local = _ranked(leveled, services.route, services.resolution)
    spread = float(np.abs(np.minimum(leveled, OUTLIER) - 1.0).mean())
    bound = max(CORRELATION, SIGNIFICANT / math.sqrt(n), EFFECT / max(spread, EFFECT))
    elsewhere = None if services.elsewhere is None or spread < EFFECT else (local, _ranks(services.elsewhere))
    if elsewhere is not None and (value := abs(correlation_of(*elsewhere))) > bound:
        dependent.append(Dependence(upstream, ALL_BACKENDS, value, bound))
    if not services.usual.workers and (value := abs(correlation_of(local[1:], _ranks(local[:-1])))) > bound:
        dependent.append(Dependence(upstream, IN_TURN, value, bound))
    slow = local > VERY_SLOW - 0.5
    pairs, expected = float((slow[1:] & slow[:-1]).sum()), float(slow.mean()) ** 2 * n
    limit = max(TOGETHER * expected, expected + TOGETHER_DEVIATIONS * math.sqrt(max(expected, 1.0)))
    if pairs > limit and services.norm[slow].mean() > MUCH_SLOWER:
        dependent.append(Dependence(upstream, SLOW_TOGETHER, pairs, limit))
    return _OfBackend(upstream, dependent, elsewhere)


def _effect(adjusted: Floats, cell: Ints) -> float:
    """Return by how much the mean services of the cells differ, as a standard deviation."""
    values = np.minimum(adjusted, OUTLIER)
    return float((means(values, cell) - values.mean()).std())


def _between_cells(values: Floats, cell: Ints) -> tuple[float, int]:
    """Return the statistic Q of centred values and its degrees of freedom, over cells with enough requests."""
    count = np.bincount(cell)
    enough = count >= IN_CELL
    variance = float(values.var())
    if variance <= 0 or not enough.any():
        return 0.0, 0
    mean = np.bincount(cell, values)[enough] / count[enough]
    return float((count[enough] * mean**2).sum()) / variance, int(enough.sum()) - 1


def _ratio(norm: Floats, in_service: Ints) -> tuple[float, int, int] | tuple[()]:
    """Return the ratio of the means at the most and at the fewest in service, and those numbers; () if not known."""
    count = np.bincount(in_service + 1)
    levels = np.flatnonzero(count >= IN_CELL)
    if len(levels) < 2:
        return ()
    low, high = int(levels[0]), int(levels[-1])
    few, many = norm[in_service + 1 <= low].mean(), norm[in_service + 1 >= high].mean()
    return (float(many / few), low, high) if few > 0 else ()


def _ranked(values: Floats, route: Ints, resolution: float = RESOLUTION) -> Floats:
    """Return the rank of each value within its route, from -0.5 to 0.5; equal values have their mean rank.

    Values that differ by less than ``resolution`` are equal.
    """
    values, ranks = np.round(values / resolution), np.empty(len(values))
    for code in range(int(route.max()) + 1):
        own = np.flatnonzero(route == code)
        _, inverse, count = np.unique(values[own], return_inverse=True, return_counts=True)
        ranks[own] = (np.cumsum(count) - (count - 1) / 2 - 0.5)[inverse] / max(len(own), 1) - 0.5
    return ranks


def _ranks(values: npt.NDArray[Any]) -> Floats:
    """Return the ranks of all values, from -0.5 to 0.5."""
    return _ranked(np.asarray(values, np.float64), np.zeros(len(values), np.int64))
