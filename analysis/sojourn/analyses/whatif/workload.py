"""The load of the workers, independent of the queueing: arrivals, service times, and other parts of the response."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl

from sojourn.analyses.whatif.balancing import inferred_balancers
from sojourn.analyses.whatif.binding import Binding, binding_of, bound
from sojourn.model.arrays import Bools, Floats, Ints
from sojourn.model.components import CLIENT_GONE, GIVEN_UP_STATUSES, SWITCHING_PROTOCOLS, TIMED_OUT
from sojourn.model.errors import SojournError
from sojourn.model.memory import REPLAY_BYTES
from sojourn.model.one_worker import SLACK
from sojourn.queueing.replay import replay
from sojourn.queueing.system import System
from sojourn.timeline.after_times import completed
from sojourn.timeline.blocks import Blocks, comparable, ordered_of_each
from sojourn.timeline.classes import classes_of, codes_of, named_column
from sojourn.timeline.held_places import absences
from sojourn.timeline.services import services_of
from sojourn.timeline.steps import Steps
from sojourn.timeline.suspicions import ABSENT, LIMIT
from sojourn.timeline.turnaround import LONGEST
from sojourn.timeline.visits import Visits, places_of, visits

COLUMNS = (
    "request_time", "app_service", "upload", "answered", "retries", "response", "connection", "remote_addr",
    "queue_source",
)  # fmt: skip
ENOUGH_FREE = 20  # requests that arrived at a free worker, to estimate the duration of the way
SEEDS, NEAR = 5, 0.15  # replays by a rule; error of their mean, of the mean response
TIMEOUT_SPREAD = 0.05  # time-outs that lie nearer together than this share are one setting


@dataclass(frozen=True)
class Workload:
    """Requests that held a worker, in the order of their arrivals; n of them. Durations in s.

    Attributes:
        visits: arrivals, backends, upstreams, workers.
        services: how long each request holds a worker, until it starts a waiting request.
        head: the part of it until the response headers, for which the client waits.
        before: upload and failed attempts, before the arrival.
        way: to its backend if a worker is free: the network, and the start of service in an idle worker.
        rest: the part of its response that is neither wait nor ``head``; without an answer, as far as it is known.
        response: as measured, s.
        wait: as measured, s; NaN where unknown.
        counted: whether its response is in the figures: not if the client disconnected, nor that of an upgraded
            connection (101), which lasts as long as it is used.
        routes: the code of each request's route, and the routes by code, in order; requests without one come last.
        imputed: requests without a service time; theirs is drawn from others of the same route.
        left_early: requests whose client disconnected (499); they load the workers and are in no distribution.
        refused: requests that no worker accepted (502 and the like): left out.
        timeout: how long nginx waited before it answered 504; None without 504s, or if the times differ.
        balancers: the inferred balancer of each upstream.
        read: the first part of ``services``, in which the worker reads the request; the app starts afterwards.
        absence: the part of ``services`` for which its worker is absent after it, as when it restarts.
        inside: backends without a limit of requests; theirs begin at the app's start.
        order: position of each request in the visits that the workload was made of; None: unchanged.
    """

    visits: Visits
    services: Floats
    head: Floats
    before: Floats
    way: Floats
    rest: Floats
    response: Floats
    wait: Floats
    counted: Bools
    routes: tuple[Ints, list[str]]
    imputed: int
    left_early: int
    refused: int
    timeout: float | None
    balancers: tuple[str, ...]
    absence: Floats
    read: Floats
    inside: frozenset[int] = frozenset()
    order: Ints | None = None

    def __len__(self) -> int:
        return len(self.services)

    @property
    def route(self) -> npt.NDArray[np.object_]:
        """The route of each request; None for those without one."""
        return named_column(self.visits.rows, "route").to_numpy()

    @cached_property
    def limits(self) -> dict[int, int]:
        """Backend -> most requests at a time that a limit in front of its workers lets pass."""
        return limits_of(self.visits)

    @cached_property
    def processes(self) -> dict[int, Ints]:
        """Backend with queues of its processes -> the process of each of its requests."""
        visits = self.visits
        several = np.flatnonzero(np.bincount(visits.places.backend, minlength=len(visits.backends)) > 1)
        by_backend = {}
        for code in several.tolist():
            places = np.flatnonzero(visits.places.backend == code)
            by_backend[code] = np.searchsorted(places, visits.places.code[visits.at_backend[code]])
        return by_backend

    @cached_property
    def bindings(self) -> dict[int, Binding]:
        """Backend with queues of its processes -> how requests are bound to these."""
        visits, client = self.visits, self.client
        end = visits.arrival + np.nan_to_num(self.wait) + self.services
        return {
            code: binding_of(visits.arrival[rows], end[rows], process, client[rows])
            for code, process in self.processes.items()
            for rows in (visits.at_backend[code],)
        }

    def follows(self, code: int) -> bool:
        """Return whether the rule by which requests are bound to processes of a backend gives the waits of the log."""
        visits, binding = self.visits, self.bindings[code]
        rows = visits.at_backend[code]
        count = int((visits.places.backend == code).sum())
        arrival, services = visits.arrival[rows], self.services[rows]
        waits = []
        for seed in range(SEEDS):
            process = bound(binding, arrival, services, count, seed)
            system = System((1,) * count, balancer="given")
            waits.append(float(replay(arrival, services, system, backend=process).wait.mean()))
        measured = float(np.nanmean(self.wait[rows] - self.way[rows]))
        allowed = NEAR * (measured + float(self.head[rows].mean()))
        return abs(float(np.mean(waits)) - measured) <= allowed

    @cached_property
    def client(self) -> Ints:
        """A number per client: by address if the log has several, else by connection; 0 if clients are unknown."""
        rows = self.visits.rows
        for name in ("remote_addr", "connection"):
            if name in rows.columns:
                client, names = classes_of(rows[name])
                if 1 < len(names) <= len(rows) / 2:
                    return client
        return np.zeros(len(self), np.int64)

    @cached_property
    def of_pool(self) -> list[Ints]:
        """The requests of each upstream."""
        return places_of(self.visits.pool[self.visits.backend], len(self.visits.pools))

    def in_order(self, arrival: Floats, order: Ints) -> Workload:
        """Return the workload with other arrivals (s, n), in their ``order``."""
        moved = replace(self.visits, arrival=arrival)
        if (np.diff(order) > 0).all():
            return replace(self, visits=moved)
        each = ("services", "head", "before", "way", "rest", "response", "wait", "counted", "absence", "read")
        codes, routes = self.routes
        return replace(
            self,
            visits=moved.at(order),
            routes=(codes[order], routes),
            order=order if self.order is None else self.order[order],
            **{name: getattr(self, name)[order] for name in each},
        )

    def of_route(self, route: str) -> Bools:
        """Return which requests are of a route."""
        codes, routes = self.routes
        return codes == routes.index(route) if route in routes else np.zeros(len(self), np.bool_)


def workload_of(
    rows: pl.LazyFrame,
    *,
    workers: int | Mapping[str, int] | None = None,
    seed: int = 0,
    service_times: Mapping[str | None, Floats] | None = None,
) -> Workload:
    """Return the workload of split rows.

    Args:
        rows: as from ``SplitResult.rows``; ``connection`` and ``remote_addr`` are used if they were read.
        workers: per backend, or the same for all; None: counted from the worker values.
        seed: of the service times that are drawn.
        service_times: route -> service times (s) of earlier requests, from which those of a route are drawn that has
            none among the rows.

    Raises:
        SojournError: the service time of every request is unknown, and there are no earlier ones.
    """
    names = rows.collect_schema().names()
    accepted = pl.col("proxied") & (pl.col("answered") | pl.col("status").is_in(GIVEN_UP_STATUSES))
    refused = rows.select((pl.col("proxied") & ~accepted).sum()).collect(engine="streaming").item()
    columns = [name for name in COLUMNS if name in names]
    recorded = visits(rows.filter(accepted), columns=columns, workers=workers, waits_unknown=True, each=REPLAY_BYTES)
    table = recorded.rows
    status = table["status"].to_numpy()
    answered = table["answered"].to_numpy()
    # The app's service time, of unanswered requests too: the app also sends their headers, and streams the rest.
    absence = _absences(recorded)
    services, head = _held(recorded) + absence, _numbers(table["app_service"])
    read = np.nan_to_num(recorded.busy_start - recorded.occupied)
    head = np.where(np.isnan(head), services, np.minimum(head + read, services))
    drawn = np.isnan(services)
    earlier = {name: times for name, times in (service_times or {}).items() if len(times)}
    if drawn.all() and not earlier:
        raise SojournError("no request has a service time: log the app's service times, or give its spans (--spans)")
    routes = _routes(recorded)
    if drawn.any():
        services[drawn] = head[drawn] = _drawn(
            services, drawn, named_column(recorded.rows, "route"), routes, seed, earlier
        )
    before = _numbers(table["upload"]) + _numbers(table["retries"])
    response, wait = _numbers(table["request_time"]), recorded.wait
    measured = answered & ~drawn & ~np.isnan(wait)
    return Workload(
        visits=recorded,
        services=services,
        head=head,
        before=before,
        way=_way(recorded, limits_of(recorded)),
        rest=np.where(measured, response - np.nan_to_num(wait) + read - head, before + services - head),
        response=response,
        wait=wait,
        counted=(status != CLIENT_GONE) & (status != SWITCHING_PROTOCOLS),
        routes=routes,
        imputed=int(drawn.sum()),
        left_early=int((status == CLIENT_GONE).sum()),
        refused=int(refused),
        timeout=_timeout(_numbers(table["response"])[status == TIMED_OUT]),
        balancers=inferred_balancers(recorded, recorded.arrival + response - before),
        absence=absence,
        read=read,
    )


def limits_of(visits: Visits) -> dict[int, int]:
    """Return backend -> most requests at a time that a limit in front of its workers lets pass."""
    return {
        code: suspect.number
        for code in visits.with_suspect(LIMIT)
        for suspect in visits.holds[code].suspects
        if suspect.kind == LIMIT and suspect.number
    }


def _held(visits: Visits) -> Floats:
    """Return how long each request held its worker, until that started a waiting request, s; NaN if unknown."""
    services = services_of(visits)
    return np.where(services.known, services.end - services.begin, np.nan)


def _absences(visits: Visits) -> Floats:
    """Return for how long the worker of each request was absent after it, s: until the next one took its place."""
    absent = np.zeros(len(visits))
    codes = visits.with_suspect(ABSENT)
    if not codes:
        return absent
    begin, end, place = absences(visits, codes)
    for code in codes:
        members = visits.at_backend[code]
        members = members[np.argsort(visits.busy_end[members], kind="stable")]
        own = np.flatnonzero((visits.places.backend[place] == code) & (end > begin))
        lasted = _until_ready(visits, members, begin[own], end[own])
        # A worker leaves with the release of its last request.
        last = np.searchsorted(visits.busy_end[members], begin[own], "left")
        has_last = last < len(members)
        at = members[last[has_last]]
        has_last[has_last] = np.abs(visits.busy_end[at] - begin[own][has_last]) < SLACK
        np.maximum.at(absent, members[last[has_last]], lasted[has_last])
    return absent


def _until_ready(visits: Visits, members: Ints, begin: Floats, end: Floats) -> Floats:
    """Return how long workers were absent, s: from ``begin`` until they would have started a request, at most ``end``.

    A new worker whose first request waited for it started it when it was ready. One whose first request came later had
    been ready since some moment after requests waited for the last time.
    """
    waits = visits.wait_end[members] > visits.arrival[members] + LONGEST
    queue = Steps.of(visits.arrival[members], np.where(waits, visits.wait_end[members], np.nan))
    before = np.searchsorted(queue.at, end - SLACK, "right") - 1
    waited = np.append(queue.level, 0)[before] > 0
    last = queue.emptied_before(end - SLACK)
    upper = end - begin
    return completed(np.where(waited, upper, np.clip(last - begin, 0.0, upper)), upper)


def _numbers(column: pl.Series) -> Floats:
    return column.cast(pl.Float64).fill_null(float("nan")).to_numpy().copy()


def _routes(visits: Visits) -> tuple[Ints, list[str]]:
    values = named_column(visits.rows, "route")
    names: list[str] = values.drop_nulls().unique().sort().to_list()
    return codes_of(values, names), names


def _drawn(
    services: Floats, drawn: Bools, route: pl.Series, routes: tuple[Ints, list[str]], seed: int,
    earlier: Mapping[str | None, Floats],
) -> Floats:  # fmt: skip
    """Return a service time for each unknown one: that of another request of its route, else an earlier one, else any.

    ``earlier``: route -> service times of earlier requests, s.
    """
    rng = np.random.default_rng(seed)
    codes, names = routes
    # The requests without a route come first, with those of an empty one.
    codes = np.where(codes == len(names), 0, codes + ("" not in names))
    others = np.flatnonzero(~drawn)
    unknown = np.flatnonzero(drawn)
    any_route = services[others] if len(others) else np.concatenate([np.empty(0), *earlier.values()])
    times = rng.choice(any_route, len(unknown)) if len(unknown) else np.empty(0)
    of_route = places_of(codes[others], len(names) + 1)
    for code, places in enumerate(places_of(codes[unknown], len(names) + 1)):
        if not len(places):
            continue
        same = services[others[of_route[code]]]
        same = same if len(same) else earlier.get(route[int(unknown[places[0]])], same)
        if len(same):
            times[places] = rng.choice(same, len(places))
    return times


def _way(visits: Visits, limits: Mapping[int, int]) -> Floats:
    """Return per request the median wait of the requests at its place that arrived at a free worker, s."""
    places, wait = visits.places, visits.wait
    most = places.workers.copy()
    for code, limit in limits.items():
        most[code] = min(int(most[code]), limit)
    free = np.zeros(len(visits), np.bool_)
    for rows in Blocks(places.code, len(most)).rows():
        has_end = ~np.isnan(visits.busy_end[rows])
        arrival, ends = comparable(places.code[rows], visits.arrival[rows], visits.busy_end[rows])
        ends = np.sort(ends[has_end], kind="stable")
        # Requests without a known end are not counted: they would seem to remain for ever.
        present = np.cumsum(has_end) - has_end - np.searchsorted(ends, arrival, side="right")
        free[rows] = (present < most[places.code[rows]]) & ~np.isnan(wait[rows])
    ordered, begin, count = ordered_of_each(places.code[free], wait[free], len(most))
    some = np.flatnonzero(count >= ENOUGH_FREE)
    low, high = (ordered[begin[some] + (count[some] + side) // 2] for side in (-1, 0))
    typical = np.zeros(len(most))
    typical[some] = (low + high) / 2  # the median; below 0 where the clocks make it so
    return typical[places.code]


def _timeout(durations: Floats) -> float | None:
    durations = durations[~np.isnan(durations)]
    if not len(durations):
        return None
    middle = float(np.median(durations))
    low, high = np.quantile(durations, [0.1, 0.9])
    return middle if middle > 0 and high - low <= TIMEOUT_SPREAD * middle else None
