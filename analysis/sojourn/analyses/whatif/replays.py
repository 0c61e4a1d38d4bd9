"""Replay a workload through the recorded configuration or through a changed one."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from sojourn.analyses.whatif.binding import BY_CLIENT, LEAST_LOADED, Binding, bound
from sojourn.analyses.whatif.closed_loop import ClosedLoop
from sojourn.analyses.whatif.sharing import NO_PLACES, Sharing, adds_load, replay_sharing
from sojourn.analyses.whatif.variants import Change, written
from sojourn.analyses.whatif.withheld import WithheldError
from sojourn.analyses.whatif.workload import Workload
from sojourn.model.arrays import Bools, Floats, Ints
from sojourn.model.compilation import compiled
from sojourn.model.errors import SojournError
from sojourn.model.formatting import printable
from sojourn.queueing.outcome import DROPPED, SERVED, TIMED_OUT_SERVED, TIMED_OUT_WAITING, Outcome
from sojourn.queueing.replay import replay
from sojourn.queueing.system import System
from sojourn.timeline.visits import places_of


@dataclass(frozen=True)
class Station:
    """Backends that share a balancer, and the requests that arrive at them.

    Attributes:
        rows: of the workload, in the order of arrivals.
        backend: of each request, as recorded; 0 everywhere for a new pool.
        system: workers and rules.
        balancer: the inferred one.
        binding: how requests are bound to processes with queues of their own; None: there are none.
        members: code of the recorded backend that each backend of the system is; those beyond are new.
    """

    rows: Ints
    backend: Ints
    system: System
    balancer: str
    binding: Binding | None = None
    members: tuple[int, ...] = ()


@dataclass(frozen=True)
class Replay:
    """The outcome of every request. Durations in s, n each.

    Attributes:
        response: until its answer, its time-out or its rejection.
        wait: of its last attempt.
        served: whether it was answered in time.
        timeouts: number of requests that timed out in the end.
        failed: number of requests without an answer, for any reason.
        rate: requests/s, between the first and the last arrival.
        goodput: requests/s answered in time.
        utilisation: share of the workers' time spent on services, from the first arrival to the last end.
        wasted: worker seconds for requests that had timed out.
        workers: total number.
    """

    response: Floats
    wait: Floats
    served: Bools
    timeouts: int
    failed: int
    rate: float
    goodput: float
    utilisation: float
    wasted: float
    workers: int

    def without_requests(self) -> Replay:
        """Return the sums alone: of several replays, the arrays of all requests would take the memory."""
        return replace(self, response=np.zeros(0), wait=np.zeros(0), served=np.zeros(0, np.bool_))


def replay_workload(
    workload: Workload, change: Change, *, loop: ClosedLoop | None = None, seed: int = 0, sharing: Sharing | None = None
) -> Replay:
    """Return the outcome of every request, in order, if every upstream is replayed under a change.

    Args:
        workload: the requests.
        change: the changed settings; ``Change()``: the recorded configuration.
        loop: the answer that each request follows; None: requests arrive as recorded.
        seed: of a balancer's random choices.
        sharing: the law of services that slow each other; None: services take as long as they did.

    Raises:
        SojournError: the change does not fit these upstreams.
        WithheldError: the log does not say what the change would do.
    """
    sharing = _sharing(workload, change, sharing, loop)
    services, head, read = _scaled(workload, change)
    factors = _factors(workload, change)
    if sharing is not None:
        services, head = services.copy(), head.copy()  # their shared parts are computed again
    n = len(workload)
    response, wait, arrival = np.full(n, math.nan), np.full(n, math.nan), np.full(n, math.nan)
    served = np.zeros(n, np.bool_)
    timeouts, wasted, busy, workers, ended = 0, 0.0, 0.0, 0, -math.inf
    start = float(workload.visits.arrival[0]) if n else 0.0
    scaled_arrival = start + (workload.visits.arrival - start) / change.load
    session = _sessions(workload) if change.balancer == "pinned" else None
    used: set[int] = set()
    for station in stations(workload, change, seed):
        rows = station.rows
        recorded_backends = station.system.balancer == "given"
        # A time-out affects no other request if its work continues, and the client does not retry.
        timeout_afterwards = change.discipline != "deadline" and not change.retries and loop is None
        previous, think = (None, None) if loop is None else loop.among(rows, change.load)
        some = rows if len(rows) < n else slice(None)  # a part of an array is a copy
        system = replace(station.system, timeout=None) if timeout_afterwards else station.system
        backend = station.backend if recorded_backends else None
        sessions = session[some] if session is not None and station.system.balancer == "pinned" else None
        if sharing is None:
            outcome = replay(
                scaled_arrival[some], services[some], system, backend=backend, session=sessions, previous=previous,
                think=think, seed=seed,
            )  # fmt: skip
        else:
            _alone(sharing, station, used)
            each = np.full(len(rows), factors) if isinstance(factors, float) else factors[some]
            after = (services - head)[some]
            slowed = replay_sharing(
                workload, rows, system, station.members, sharing, scaled_arrival[some], each, after,
                backend=backend, session=sessions, seed=seed,
            )  # fmt: skip
            outcome = slowed.outcome
            head[some] = read[some] + slowed.lasted
            services[some] = head[some] + after
        if timeout_afterwards and station.system.timeout is not None:
            outcome = _with_timeout(outcome, services[some], head[some], station.system.timeout)
        arrival[some] = outcome.arrival
        _measure(
            rows, outcome.status, outcome.wait, outcome.sojourn, services, head, workload.way, workload.rest,
            workload.before, read, response, wait, served,
        )  # fmt: skip
        timeouts += outcome.timeouts
        wasted += outcome.wasted
        busy += outcome.busy
        ended = max(ended, outcome.ended)
        workers += outcome.workers
    seconds = float(arrival.max() - arrival.min()) if n else 0.0
    span = ended - float(arrival.min()) if n else 0.0
    per_second = 1 / seconds if seconds > 0 else math.nan
    return Replay(
        response=response,
        wait=wait,
        served=served,
        timeouts=timeouts,
        failed=int(n - served.sum()),
        rate=n * per_second,
        goodput=float(served.sum()) * per_second,
        utilisation=busy / (workers * span) if span > 0 else math.nan,
        wasted=wasted,
        workers=workers,
    )


def _sharing(workload: Workload, change: Change, sharing: Sharing | None, loop: ClosedLoop | None) -> Sharing | None:
    """Return the law with the change; WithheldError if nothing is shared that it changes, or it is not replayed."""
    without_limit = [code for code in workload.inside if sharing is None or not sharing.has_places(code)]
    if without_limit and adds_load(workload, change):
        raise WithheldError(
            f"{_name(workload, min(without_limit))} serves several requests at once in one worker; how many at most is "
            "not known"
        )
    if sharing is None:
        if change.pool is not None:
            raise WithheldError(NO_PLACES)
        if change.cores is not None or change.dependency != 1:
            raise WithheldError("services do not depend on the load, so what they share does not show")
        return None
    if loop is not None:
        raise WithheldError("where services share something, clients that wait for answers are not replayed")
    if change.pools:
        raise WithheldError("a pool of its own would share the same resource, which is not replayed")
    return sharing.changed(change)


def _alone(sharing: Sharing, station: Station, used: set[int]) -> None:
    """Add the resources of a station to ``used``; WithheldError if another station uses one of them."""
    own = set(sharing.resource[list(station.members)].tolist())
    if own & used:
        raise WithheldError("several upstreams share a resource, and they are replayed one by one")
    used |= own


def stations(workload: Workload, change: Change, seed: int = 0) -> Iterator[Station]:
    """Yield the systems that a workload passes through under a change.

    One station per upstream, one per route with its own pool, and one per backend whose processes have queues of their
    own; ``seed``: of the choice among these.

    Raises:
        SojournError: no worker or backend would be left, or a route does not exist.
        WithheldError: the log does not say what this change would do.
    """
    _check_routes(workload, change)
    visits = workload.visits
    rules = {
        "discipline": change.discipline or "fifo",
        "timeout": _timeout(workload, change),
        "retries": change.retries,
        "backoff": change.backoff,
        "capacity": change.capacity,
    }
    for number, members in enumerate(places_of(visits.pool, len(visits.pools))):
        rows = workload.of_pool[number]
        _withhold_absences(workload, rows, change)
        for route, count in change.pools.items():
            own = workload.of_route(route)[rows]
            if own.any():
                yield _station(
                    rows[own], np.zeros(int(own.sum()), np.int64), System((count,), balancer="given"), rules, "given"
                )
                rows = rows[~own]
        own_queues = [code for code in members.tolist() if code in workload.processes and not change.one_queue]
        if own_queues and (change.balancer or change.backends):
            raise WithheldError(
                f"the processes of {_name(workload, own_queues[0])} have queues of their own, and another balancer in "
                "front of them is not replayed"
            )
        for code in own_queues:
            own = visits.backend[rows] == code
            yield _bound_station(workload, code, rows[own], change, rules, seed)
            rows = rows[~own]
        codes = np.array([code for code in members.tolist() if code not in own_queues], np.int64)
        if len(rows):
            _withhold_inside(workload, codes, change)
            present = visits.workers.count[codes]
            counts = _limited(workload, codes, _workers(present, change), change)
            now = _limited(workload, codes, tuple(present.tolist()), Change())
            system = System(counts, balancer=_balancer(np.array(now), counts, change, workload.balancers[number]))
            backend = np.searchsorted(codes, visits.backend[rows])
            yield _station(rows, backend, system, rules, workload.balancers[number], members=tuple(codes.tolist()))


def _withhold_absences(workload: Workload, rows: Ints, change: Change) -> None:
    """Withhold changes of the load or of the workers where workers are absent at times.

    When they are, and how many at once, may depend on what they serve.
    """
    changed = change.workers or change.backends or change.routes or change.service != 1 or change.load != 1
    absent = workload.absence[rows] > 0
    if changed and not change.never_absent and absent.any():
        code = int(workload.visits.backend[rows[absent][0]])
        raise WithheldError(
            f"workers of {_name(workload, code)} were absent at times (restarts, deploys), and when may depend on what "
            "they serve: absent=none replays them without absences"
        )


def _withhold_inside(workload: Workload, members: Ints, change: Change) -> None:
    """Withhold changes in front of apps without a limit of requests, where requests do not wait for workers."""
    inside = [code for code in members.tolist() if code in workload.inside]
    if inside and (change.workers or change.backends or change.limit or change.balancer):
        raise WithheldError(
            f"{_name(workload, inside[0])} starts requests when they arrive: they do not wait for workers"
        )


def _limited(workload: Workload, members: Ints, counts: tuple[int, ...], change: Change) -> tuple[int, ...]:
    """Return how many requests each backend serves at a time: as many as it has workers, or as a limit lets pass."""
    limits = [workload.limits.get(code) for code in members.tolist()]
    usual = Counter(limits).most_common(1)[0][0]
    limited = []
    for place, count in enumerate(counts):
        limit = limits[place] if place < len(limits) else usual
        if change.limit is not None:
            if limit is None and change.limit.operator:
                raise WithheldError("limit: no limit in front of the workers shows in the log: give its new number")
            limit = round(change.limit.of(limit or 0))
            if limit < 1:
                raise SojournError(f"{written(change.settings)} would leave no place")
        limited.append(count if limit is None else min(count, limit))
    return tuple(limited)


def _bound_station(
    workload: Workload, code: int, rows: Ints, change: Change, rules: Mapping[str, object], seed: int
) -> Station:
    """Return the station of a backend whose processes have queues of their own; WithheldError without a known rule."""
    visits = workload.visits
    sizes = visits.places.workers[visits.places.backend == code]
    process = np.zeros(len(workload), np.int64)
    process[visits.at_backend[code]] = workload.processes[code]
    backend, counts = process[rows], tuple(int(size) for size in sizes)
    binding = workload.bindings[code]
    total = round(change.workers.of(sum(counts))) if change.workers else sum(counts)
    if total < 1:
        raise SojournError(f"{written(change.settings)} would leave a backend without workers")
    if total != sum(counts) and (max(counts) > 1 or binding.rule == BY_CLIENT or visits.reserved[code]):
        raise WithheldError(
            f"the processes of {_name(workload, code)} have queues of their own, and which requests more or fewer "
            "workers would serve is not known"
        )
    by_load = binding.rule == LEAST_LOADED and not visits.reserved[code]
    by_load = by_load and (change.service != 1 or change.load != 1 or bool(change.routes))
    if total != sum(counts) or by_load:
        if max(counts) > 1 or not workload.follows(code):
            raise WithheldError(
                f"the processes of {_name(workload, code)} have queues of their own, and requests are bound to them by "
                "a rule that is not known"
            )
        arrival = visits.arrival[rows] / change.load
        backend = bound(binding, arrival, _scaled(workload, change)[0][rows], total, seed)
        counts = (1,) * total
    system = System(counts, balancer="given")
    return _station(rows, backend, system, rules, "given", binding, members=(code,) * len(counts))


def _name(workload: Workload, code: int) -> str:
    return printable(workload.visits.backends[code] or "a backend", 60)


def _with_timeout(outcome: Outcome, services: Floats, head: Floats, timeout: float) -> Outcome:
    """Return the outcome where requests without headers by the ``timeout`` (s) time out.

    nginx waits that long for the next bytes: an answer that has begun may stream for longer. A system's own timeout
    ends when the worker is free, and is used only where a time-out affects later requests.
    """
    status, wait, sojourn = outcome.status.copy(), outcome.wait.copy(), outcome.sojourn.copy()
    wasted = _time_out(status, wait, sojourn, services, head, timeout)
    return replace(outcome, status=status, wait=wait, sojourn=sojourn, wasted=wasted)


@compiled
def _time_out(status, wait, sojourn, services, head, timeout):  # type: ignore[no-untyped-def]
    """Change the outcome of requests without headers by the ``timeout``; return the services of those served, s."""
    wasted = 0.0
    for i in range(len(status)):
        waiting = wait[i] >= timeout and (status[i] == SERVED or status[i] == DROPPED)
        if waiting or (status[i] == SERVED and wait[i] + head[i] >= timeout):
            if status[i] == SERVED:
                wasted += services[i]
            sojourn[i] = timeout
            if waiting:
                wait[i], status[i] = timeout, TIMED_OUT_WAITING
            else:
                status[i] = TIMED_OUT_SERVED
    return wasted


@compiled
def _measure(  # type: ignore[no-untyped-def]
    rows, status, waits, sojourns, services, head, way, rest, before, read, response, wait, served
):
    """Fill in the response, the wait and whether it was served, of the requests ``rows`` with these outcomes.

    The way delays a request without queueing; it is short compared with any time-out. Streaming after the headers holds
    the worker, not the client.
    """
    for k in range(len(rows)):
        i = rows[k]
        wait[i] = waits[k] + way[i] + read[i]
        served[i] = status[k] == SERVED
        if served[i]:
            response[i] = rest[i] + way[i] + sojourns[k] - (services[i] - head[i])
        else:
            response[i] = before[i] + sojourns[k]


def _station(
    rows: Ints, backend: Ints, system: System, rules: Mapping[str, object], balancer: str,
    binding: Binding | None = None, members: tuple[int, ...] = (),
) -> Station:  # fmt: skip
    try:
        return Station(rows, backend, replace(system, **rules), balancer, binding, members)  # type: ignore[arg-type]
    except ValueError as error:
        raise SojournError(str(error)) from None


def _workers(present: Ints, change: Change) -> tuple[int, ...]:
    """Return the workers of each backend; a new backend has the most frequent number."""
    usual = Counter(present.tolist()).most_common(1)[0][0]
    backends = round(change.backends.of(len(present))) if change.backends else len(present)
    counts = [*present.tolist(), *[usual] * max(backends - len(present), 0)][: max(backends, 0)]
    workers = [round(change.workers.of(count)) if change.workers else count for count in counts]
    if not workers or min(workers) < 1:
        left = "a backend without workers" if workers else "no backend"
        raise SojournError(f"{written(change.settings)} would leave {left}")
    return tuple(workers)


def _balancer(present: Ints, counts: tuple[int, ...], change: Change, inferred: str) -> str:
    """Return the requested balancer, else ``given``, else the inferred one if it would choose other backends now."""
    if len(counts) != len(present):
        if change.balancer == "given":
            raise SojournError(
                f"{written(change.settings)}: with a different number of backends, requests cannot keep their recorded "
                "backends; name another balancer"
            )
        return change.balancer or inferred
    if change.balancer:
        return change.balancer
    # With a different number of workers, least connections chooses differently; round robin does not.
    return inferred if inferred == "least_conn" and counts != tuple(present.tolist()) else "given"


def _timeout(workload: Workload, change: Change) -> float | None:
    if change.timeout is None:
        return workload.timeout
    return None if math.isinf(change.timeout) else change.timeout


def _scaled(workload: Workload, change: Change) -> tuple[Floats, Floats, Floats]:
    """Return service times, heads, and times of reading under a change."""
    _check_routes(workload, change)
    absence = 0.0 if change.never_absent else workload.absence
    services = workload.services - workload.absence
    factors = _factors(workload, change)
    if isinstance(factors, float) and factors == 1.0:
        return services + absence, workload.head, workload.read
    return services * factors + absence, workload.head * factors, workload.read * factors


def _factors(workload: Workload, change: Change) -> Floats | float:
    """Return the factor of each service under a change; one for all if they are equal."""
    if not change.routes:
        return change.service
    factors = np.full(len(workload), change.service)
    for route, factor in change.routes.items():
        factors[workload.of_route(route)] *= factor
    return factors


def _check_routes(workload: Workload, change: Change) -> None:
    for route in (*change.routes, *change.pools):
        if not workload.of_route(route).any():
            raise SojournError(f"{written(change.settings)}: the log has no request of the route {route!r}")


def _sessions(workload: Workload) -> Ints:
    """Return a number per client: by address if there are several, else by connection."""
    rows = workload.visits.rows
    for name in ("remote_addr", "connection"):
        if name in rows.columns and rows[name].n_unique() > 1:
            return rows[name].cast(pl.String).fill_null("").rank("dense").to_numpy().astype(np.int64)
    raise SojournError("balancer=pinned cannot identify clients: log remote_addr or connection")
