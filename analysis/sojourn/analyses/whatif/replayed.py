"""A workload through a system: as it was, or as it could be."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from sojourn.analyses.whatif.loop import Loop
from sojourn.analyses.whatif.variants import Change
from sojourn.analyses.whatif.workload import Bools, Floats, Ints, Workload
from sojourn.model.errors import SojournError
from sojourn.queueing.outcome import DROPPED, SERVED, TIMED_OUT_SERVED, TIMED_OUT_WAITING, Outcome
from sojourn.queueing.replay import replay
from sojourn.queueing.system import System


@dataclass(frozen=True)
class Station:
    """Backends that share a balancer, and the requests that come to them.

    Attributes:
        rows: of the workload, in the order of arrivals.
        backend: of each request, as it was; -1 everywhere for a new pool.
        system: workers and rules.
    """

    rows: Ints
    backend: Ints
    system: System


@dataclass(frozen=True)
class Replayed:
    """What came of every request. Durations in s, n each.

    Attributes:
        response: until its answer, or until it was given up on or refused.
        wait: of its last attempt.
        served: whether it was answered in time.
        timeouts: how many were given up on in the end.
        failed: how many were not answered, for whatever reason.
        rate: requests/s, between the first and the last arrival.
        goodput: requests/s answered in time.
        utilisation: share of the workers' time spent on services, from the first arrival to the last end.
        wasted: worker seconds for nobody.
        workers: in all.
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


def replayed(workload: Workload, change: Change, *, loop: Loop | None = None, seed: int = 0) -> Replayed:
    """Every upstream of the workload under a change; without any, as things are.

    Args:
        workload: what was asked.
        change: what is different.
        loop: whose answer lets whom come; None: everybody comes when they came.
        seed: of what a balancer leaves to chance.

    Raises:
        SojournError: the change does not fit these upstreams.
    """
    factors = _factors(workload, change)
    services = workload.services * factors
    head = workload.head * factors
    n = len(workload)
    response, wait, arrival = np.full(n, math.nan), np.full(n, math.nan), np.full(n, math.nan)
    served = np.zeros(n, np.bool_)
    timeouts, wasted, busy, workers, ended = 0, 0.0, 0.0, 0, -math.inf
    start = float(workload.found.arrival[0]) if n else 0.0
    came = start + (workload.found.arrival - start) / change.load
    way = workload.way
    session = _sessions(workload) if change.balancer == "pinned" else None
    for station in stations(workload, change):
        rows = station.rows
        given = station.system.balancer == "given"
        apart = _only_watches(change, loop)
        previous, think = (None, None) if loop is None else loop.among(rows, change.load)
        outcome = replay(
            came[rows],
            services[rows],
            replace(station.system, timeout=None) if apart else station.system,
            backend=station.backend if given else None,
            session=session[rows] if session is not None and station.system.balancer == "pinned" else None,
            previous=previous,
            think=think,
            seed=seed,
        )
        if apart and station.system.timeout is not None:
            outcome = _with_timeout(outcome, services[rows], head[rows], station.system.timeout)
        # On the way a request waits for nobody. Nobody's patience is so short that it would matter.
        arrival[rows], wait[rows] = outcome.arrival, outcome.wait + way[rows]
        served[rows] = outcome.status == SERVED
        # What streams on after the headers holds the worker, not the client.
        streamed = np.where(outcome.status == SERVED, services[rows] - head[rows], 0.0)
        beyond = np.where(outcome.status == SERVED, workload.rest[rows], workload.before[rows])
        response[rows] = beyond + np.where(outcome.status == SERVED, way[rows], 0.0) + outcome.sojourn - streamed
        timeouts += int(np.isin(outcome.status, (TIMED_OUT_WAITING, TIMED_OUT_SERVED)).sum())
        wasted += outcome.wasted
        busy += outcome.busy
        ended = max(ended, outcome.ended)
        workers += outcome.workers
    seconds = float(arrival.max() - arrival.min()) if n else 0.0
    held = ended - float(arrival.min()) if n else 0.0
    per_second = 1 / seconds if seconds > 0 else math.nan
    return Replayed(
        response=response,
        wait=wait,
        served=served,
        timeouts=timeouts,
        failed=int(n - served.sum()),
        rate=n * per_second,
        goodput=float(served.sum()) * per_second,
        utilisation=busy / (workers * held) if held > 0 else math.nan,
        wasted=wasted,
        workers=workers,
    )


def stations(workload: Workload, change: Change) -> Iterator[Station]:
    """The systems that a workload goes through under a change.

    Raises:
        SojournError: no worker or backend would be left, or a route does not exist.
    """
    _known_routes(workload, change)
    found = workload.found
    local = np.zeros(len(found.backends), np.int64)
    of_request = found.pool[found.backend] if len(found) else np.empty(0, np.int32)
    rules = {
        "discipline": change.discipline or "fifo",
        "timeout": _timeout(workload, change),
        "retries": change.retries,
        "backoff": change.backoff,
        "capacity": change.capacity,
    }
    for number in range(len(found.pools)):
        members = np.flatnonzero(found.pool == number)
        local[members] = np.arange(len(members))
        rows = np.flatnonzero(of_request == number)
        for route, count in change.pools.items():
            own = workload.route[rows] == route
            if own.any():
                yield _station(rows[own], np.zeros(int(own.sum()), np.int64), System((count,), balancer="given"), rules)
                rows = rows[~own]
        if len(rows):
            present = found.workers.count[members]
            counts = _workers(present, change)
            system = System(counts, balancer=_balancer(present, counts, change, workload.balancers[number]))
            yield _station(rows, local[found.backend[rows]], system, rules)


def _only_watches(change: Change, loop: Loop | None) -> bool:
    """Whether a client that gives up changes nothing for anybody else: its work goes on, and it does not come again."""
    return change.discipline != "deadline" and not change.retries and loop is None


def _with_timeout(outcome: Outcome, services: Floats, head: Floats, timeout: float) -> Outcome:
    """The outcome where clients give up when no headers came in time.

    nginx waits that long for the next bytes: an answer that has begun may stream on for longer. A system's own timeout
    is until the worker is free, and is used only where giving up changes what comes after.
    """
    waiting = (outcome.wait >= timeout) & np.isin(outcome.status, (SERVED, DROPPED))
    during = (outcome.status == SERVED) & ~waiting & (outcome.wait + head >= timeout)
    late = waiting | during
    status = np.select([waiting, during], [TIMED_OUT_WAITING, TIMED_OUT_SERVED], outcome.status).astype(np.int8)
    return replace(
        outcome,
        status=status,
        wait=np.where(waiting, timeout, outcome.wait),
        sojourn=np.where(late, timeout, outcome.sojourn),
        wasted=float(services[late & (outcome.status == SERVED)].sum()),
    )


def _station(rows: Ints, backend: Ints, system: System, rules: Mapping[str, object]) -> Station:
    try:
        return Station(rows, backend, replace(system, **rules))  # type: ignore[arg-type]
    except ValueError as error:
        raise SojournError(str(error)) from None


def _workers(present: Ints, change: Change) -> tuple[int, ...]:
    """Workers of each backend; a new backend has as many as most have."""
    usual = Counter(present.tolist()).most_common(1)[0][0]
    backends = round(change.backends.of(len(present))) if change.backends else len(present)
    counts = [*present.tolist(), *[usual] * max(backends - len(present), 0)][: max(backends, 0)]
    workers = [round(change.workers.of(count)) if change.workers else count for count in counts]
    if not workers or min(workers) < 1:
        raise SojournError(f"{_said(change)} would leave {'a backend without workers' if workers else 'no backend'}")
    return tuple(workers)


def _balancer(present: Ints, counts: tuple[int, ...], change: Change, seen: str) -> str:
    """The one asked for; otherwise everybody goes where they went, unless the balancer would now choose anew."""
    if len(counts) != len(present):
        if change.balancer == "given":
            raise SojournError("with other backends requests cannot go where they went: name another balancer")
        return change.balancer or seen
    if change.balancer:
        return change.balancer
    # Who sends where the fewest are sends elsewhere when workers are more or less; who sends in turn does not.
    return seen if seen == "least_conn" and counts != tuple(present.tolist()) else "given"


def _timeout(workload: Workload, change: Change) -> float | None:
    if change.timeout is None:
        return workload.timeout
    return None if math.isinf(change.timeout) else change.timeout


def _factors(workload: Workload, change: Change) -> Floats:
    _known_routes(workload, change)
    factors = np.full(len(workload), change.service)
    for route, factor in change.routes.items():
        factors[workload.route == route] *= factor
    return factors


def _known_routes(workload: Workload, change: Change) -> None:
    for route in (*change.routes, *change.pools):
        if not (workload.route == route).any():
            raise SojournError(f"{_said(change)}: there is no request of the route {route!r}")


def _sessions(workload: Workload) -> Ints:
    """A number for each client: by its address where there are several, otherwise by its connection."""
    frame = workload.found.frame
    for name in ("remote_addr", "connection"):
        if name in frame.columns and frame[name].n_unique() > 1:
            return frame[name].cast(pl.String).fill_null("").rank("dense").to_numpy().astype(np.int64)
    raise SojournError("balancer=pinned needs the clients told apart: the log has neither remote_addr nor connection")


def _said(change: Change) -> str:
    return ", ".join(f"{key}={value}" for key, value in change.said.items())
