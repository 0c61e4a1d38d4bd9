"""Until when each request holds its worker, by the evidence in the log.

A span shows the release. Without one, four rules apply to the workers that are named:

1. A body holds its worker if the worker starts nothing while the body is sent, although a free one would have.
2. While requests wait, a worker that starts nothing is held by what it served last, if this happens after the answers
   to some routes and not after others, or after all answers.
3. Where no request waited for the worker, the time after the answer is not seen, only bounds of it. It is drawn from
   the distribution that both kinds of times determine (``after_times``).
4. A worker that starts some routes late, although it was free and the request was there, reads these requests first.

A route's body that is sent in a thread of its own holds no worker: the worker starts other requests meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sojourn.model.arrays import Bools, Floats, Ints
from sojourn.model.components import GIVEN_UP_STATUSES
from sojourn.model.parallel import in_threads
from sojourn.timeline.after_times import completed
from sojourn.timeline.classes import classes_of, summed
from sojourn.timeline.pauses import are_together, overlap_with, pauses_of
from sojourn.timeline.phases import BackendHolds, Phases
from sojourn.timeline.processes import Processes, evidence_by_process, processes_of
from sojourn.timeline.steps import Steps
from sojourn.timeline.stretches import busiest
from sojourn.timeline.suspicions import AFTER, BOUND, PAUSE, READ, RESERVED, UNKNOWN, Suspect, suspects
from sojourn.timeline.turnaround import LONGEST, TICK
from sojourn.timeline.visit_arrays import Visits
from sojourn.timeline.worker_evidence import FEW, Evidence, after_routes, free_share, way_of
from sojourn.timeline.workers import FROM_INFERENCE

FEWEST = 300  # requests of a backend
MOST_BACKENDS = 50  # those with the most requests
LONG_BODY = 0.03  # s
SELDOM, OFTEN = 0.02, 0.05  # share of the bodies in which the worker starts another request
MUCH, LITTLE = 0.1, 0.05  # share of the waiting with a worker that looks free: to be explained; left by a cause
SEVERAL = 0.01  # share of the requests that start while their worker serves another: it serves several at a time


def with_holds(visits: Visits, headers: Floats, spanned: Bools, transfer: Floats) -> Visits:
    """Return visits whose ``busy_end`` is the release of the worker, with the phases until then.

    ``headers``: end of each service, s; NaN: unknown. ``spanned``: whether a span shows the release. ``transfer``: from
    the headers to the end of the answer, s; NaN or negative: none.
    """
    answered = headers + np.maximum(np.nan_to_num(transfer), 0.0)
    body_end = np.where(spanned, np.fmin(answered, visits.busy_end), headers)
    log = _Log(visits, headers, answered, spanned)
    stretches = list(_stretches(log))
    bodies = _bodies(visits, stretches)
    holding = dict(in_threads(lambda stretch: _looked_at(log, stretch, bodies.get(stretch.code)), stretches))
    long = ~spanned & (answered - headers > LONG_BODY)
    evident, release = visits.busy_end.copy(), visits.busy_end.copy()
    in_doubt = np.zeros(len(visits))
    if long.any():
        in_doubt[long] = (answered - headers)[long]
    occupied = visits.busy_start.copy()
    for code, holds in holding.items():
        if holds.body or holds.elsewhere or holds.after or holds.read:
            members = visits.at_backend[code]
            backend = _Backend.of(visits, members, visits.busy_start[members])
            _apply(log, backend, holds, (body_end, evident, release, in_doubt))
            occupied[backend.places] = _occupied(log, backend, holds, release[backend.places])
    return replace(visits, busy_end=release, phases=Phases(occupied, headers, body_end, evident, in_doubt, holding))


@dataclass(frozen=True)
class _Log:
    """The visits with the end of each service, of the answer (s, n), and whether a span shows the release."""

    visits: Visits
    headers: Floats
    answered: Floats
    spanned: Bools


@dataclass(frozen=True)
class _Backend:
    """Requests of one backend in the order of their starts, with the next start of the same worker.

    ``places``: of the requests among the visits; ``following``: s, inf for none; ``next``, ``previous``: the request
    after and before in the same worker, -1 for none.
    """

    places: Ints
    worker: Ints
    names: tuple[str, ...]
    route: Ints
    routes: tuple[str, ...]
    following: Floats
    next: Ints
    previous: Ints

    @classmethod
    def of(cls, visits: Visits, members: Ints, begin: Floats) -> _Backend:
        """Order the requests whose start and worker are known."""
        has_worker = visits.column_at("worker", members).is_not_null().to_numpy()
        usable = np.flatnonzero(has_worker & ~np.isnan(begin) & ~np.isnan(visits.busy_end[members]))
        usable = usable[np.argsort(begin[usable], kind="stable")]
        places, begin = members[usable], begin[usable]
        worker, names = classes_of(visits.column_at("worker", places))
        route, labels = classes_of(visits.column_at("route", places))
        following = np.full(len(places), np.inf)
        after, before = np.full(len(places), -1), np.full(len(places), -1)
        order = np.argsort(worker, kind="stable")
        same = worker[order[1:]] == worker[order[:-1]]
        following[order[:-1][same]] = begin[order[1:][same]]
        after[order[:-1][same]] = order[1:][same]
        before[order[1:][same]] = order[:-1][same]
        return cls(places, worker, tuple(names), route, tuple(labels), following, after, before)


@dataclass(frozen=True)
class _Stretch:
    """The busiest stretch of a backend: its requests, and their headers, answers (s), and spans."""

    code: int
    backend: _Backend
    headers: Floats
    answered: Floats
    spanned: Bools

    @classmethod
    def of(cls, log: _Log, code: int, backend: _Backend) -> _Stretch:
        """Return the stretch with what the log has of its requests."""
        at = backend.places
        return cls(code, backend, log.headers[at], log.answered[at], log.spanned[at])


def _stretches(log: _Log) -> Iterator[_Stretch]:
    """Yield the stretches of the backends whose workers are named and serve one request at a time."""
    visits = log.visits
    if "worker" not in visits.rows.columns:
        return
    for code in np.argsort(-visits.served, kind="stable")[:MOST_BACKENDS].tolist():
        members = visits.at_backend[code]
        if len(members) < FEWEST or visits.workers.source[code] == FROM_INFERENCE or not visits.workers.names[code]:
            continue
        end = np.fmax(visits.busy_end[members], visits.arrival[members])
        chosen = members[busiest(visits.arrival[members], end)]
        backend = _Backend.of(visits, chosen, visits.busy_start[chosen])
        if len(backend.places) < FEWEST:
            continue
        stretch = _Stretch.of(log, code, backend)
        if float((backend.following < stretch.headers - LONGEST).mean()) <= SEVERAL:
            yield stretch


def _bodies(visits: Visits, stretches: Sequence[_Stretch]) -> dict[int, BackendHolds]:
    """Return for each backend which routes' bodies hold a worker; backends of one upstream are alike.

    A body holds its worker if the worker starts nothing meanwhile, although a free one would have, at its usual rate.
    """
    evidence: dict[int, dict[str, Floats]] = {}  # upstream -> route -> bodies, starts inside, starts expected
    routes_of: dict[int, set[str]] = {}
    for stretch in stretches:
        backend = stretch.backend
        long = ~stretch.spanned & (stretch.answered - stretch.headers > LONG_BODY) & np.isfinite(backend.following)
        if not long.any():
            continue
        begin = visits.busy_start[backend.places]
        rate = np.bincount(backend.worker, minlength=len(backend.names)) / max(float(begin[-1] - begin[0]), 1e-9)
        inside = backend.following < stretch.answered - LONGEST
        expected = (stretch.answered - stretch.headers) * rate[backend.worker]
        of_route = backend.route[long]
        sums = [
            summed(of_route, values[long].astype(np.float64), len(backend.routes))
            for values in (long, inside, expected)
        ]
        of_pool = evidence.setdefault(int(visits.pool[stretch.code]), {})
        routes_of[stretch.code] = {backend.routes[code] for code in np.flatnonzero(sums[0])}
        for code in np.flatnonzero(sums[0]):
            name = backend.routes[code]
            of_pool[name] = of_pool.get(name, np.zeros(3)) + np.array([each[code] for each in sums])
    decided = {}
    for stretch in stretches:
        of_pool = evidence.get(int(visits.pool[stretch.code]), {})
        own = sorted(routes_of.get(stretch.code, set()))
        body = tuple(name for name in own if _holds(of_pool[name]))
        elsewhere = tuple(name for name in own if of_pool[name][1] > OFTEN * of_pool[name][0])
        doubtful = tuple(name for name in own if name not in (*body, *elsewhere))
        decided[stretch.code] = BackendHolds(body, elsewhere, doubtful)
    return decided


def _holds(sums: Floats) -> bool:
    bodies, inside, expected = sums
    return bool(bodies >= 3 and inside < SELDOM * bodies and expected > FEW)


def _looked_at(log: _Log, stretch: _Stretch, bodies: BackendHolds | None) -> tuple[int, BackendHolds]:
    """Return what holds the workers of a backend, by its stretch."""
    visits, holds = log.visits, bodies or BackendHolds()
    places = stretch.backend.places
    release = _evident_release(visits, stretch, holds)
    way = _way(visits.arrival[places], visits.busy_start[places], release, len(stretch.backend.names))
    evidence = _evidence(visits, stretch, visits.busy_start, release, way)
    kinds = {suspect.kind: suspect for suspect in suspects(evidence)}
    holds = replace(holds, way=way, suspects=tuple(kinds.values()), evidence=(evidence,))
    if READ in kinds:
        return stretch.code, _with_reading(log, stretch, holds, release)
    if BOUND in kinds or RESERVED in kinds:
        return stretch.code, _with_processes(visits, stretch, holds, evidence, release, reserved=RESERVED in kinds)
    if AFTER in kinds:
        return stretch.code, _with_after(visits, stretch, holds, evidence, release)
    return stretch.code, holds


def _evident_release(visits: Visits, stretch: _Stretch, holds: BackendHolds) -> Floats:
    """Return when each worker is free, s: by the span, a body that holds it, or the headers."""
    backend = stretch.backend
    release = np.where(stretch.spanned, visits.busy_end[backend.places], stretch.headers)
    held = ~stretch.spanned & _of(backend, holds.body)
    return np.where(held, np.fmin(np.fmax(stretch.answered, release), backend.following), release)


def _evidence(visits: Visits, stretch: _Stretch, occupied: Floats, release: Floats, way: float) -> Evidence:
    """Return the evidence of a stretch; ``occupied``: when a worker took each of the visits, s."""
    backend = stretch.backend
    begin = occupied[backend.places]
    arrival = np.minimum(visits.arrival[backend.places] + way, begin)
    # Requests of which nothing is known may have held workers, too.
    unknown = visits.left_out.get("no_wait", 0)
    abandoned = unknown / (len(visits) + unknown)
    if "status" in visits.rows.columns:
        status = visits.column_at("status", visits.at_backend[stretch.code])
        abandoned += float(status.is_in(GIVEN_UP_STATUSES).mean() or 0.0)  # type: ignore[arg-type]
    return Evidence(
        arrival, begin, stretch.headers, _with_turnaround(release, backend.following), ~stretch.spanned,
        backend.following, backend.previous, backend.worker, backend.route, backend.routes, abandoned,
    )  # fmt: skip


def _with_after(
    visits: Visits, stretch: _Stretch, holds: BackendHolds, evidence: Evidence, release: Floats
) -> BackendHolds:
    """Return the holds with work after answers if this explains why workers look free; otherwise as they are."""
    backend = stretch.backend
    suspect = next(each for each in holds.suspects if each.kind == AFTER)
    after = replace(holds, after=suspect.routes)
    times = _after(visits, backend, after, release, stretch.spanned)
    explained = replace(evidence, release=_with_turnaround(release + times, backend.following))
    ended_at_once = are_together(backend.following[(times > LONGEST) & (release + times == backend.following)])
    if explained.free > LITTLE or ended_at_once:
        others = (Suspect(PAUSE),) if ended_at_once else suspects(explained) or (Suspect(UNKNOWN),)
        return replace(holds, suspects=(suspect, *others))
    return replace(after, suspects=suspects(explained), evidence=(explained,))


def _with_reading(log: _Log, stretch: _Stretch, holds: BackendHolds, release: Floats) -> BackendHolds:
    """Return the holds with requests that workers read, if this explains why they look free; otherwise as they are."""
    visits, backend = log.visits, stretch.backend
    suspect = next(each for each in holds.suspects if each.kind == READ)
    reading = replace(holds, read=suspect.routes)
    occupied = visits.busy_start.copy()
    occupied[backend.places] = _occupied(log, backend, reading, release)
    # The next start of a worker is now when it takes the next request.
    again = _Stretch.of(log, stretch.code, _Backend.of(visits, backend.places, occupied[backend.places]))
    explained = _evidence(visits, again, occupied, _evident_release(visits, again, holds), holds.way)
    if explained.free > LITTLE:
        return replace(holds, suspects=(suspect, *(suspects(explained) or (Suspect(UNKNOWN),))))
    return replace(reading, suspects=suspects(explained), evidence=(explained,))


def _occupied(log: _Log, backend: _Backend, holds: BackendHolds, release: Floats) -> Floats:
    """Return when each worker took its request, s: where it reads requests first, when it was free and they arrived."""
    visits = log.visits
    begin = visits.busy_start[backend.places]
    read = _of(backend, holds.read)
    free = np.append(release, -np.inf)[backend.previous]
    earliest = np.fmax(visits.arrival[backend.places] + holds.way, free)
    return np.where(read, np.minimum(earliest, begin), begin)


def _with_processes(
    visits: Visits, stretch: _Stretch, holds: BackendHolds, evidence: Evidence, release: Floats, *, reserved: bool
) -> BackendHolds:
    """Return the holds with processes if these explain why workers look free; otherwise as they are."""
    backend = stretch.backend
    processes = processes_of(evidence, backend.names, reserved=reserved)
    apart = evidence_by_process(evidence, backend.names, processes)
    bound = replace(holds, processes=processes, evidence=apart)
    if free_share(apart) > MUCH and (routes := after_routes(apart)):
        bound = replace(bound, after=routes)
        times = _after(visits, backend, bound, release, stretch.spanned)
        explained = replace(evidence, release=_with_turnaround(release + times, backend.following))
        bound = replace(bound, evidence=evidence_by_process(explained, backend.names, processes))
    return replace(bound, suspects=()) if bound.free <= LITTLE else holds


def _way(arrival: Floats, begin: Floats, release: Floats, workers: int) -> float:
    """Return the way to a free worker, s; 0 if it is too short to be measured, or seldom seen."""
    at, begun = np.sort(arrival), np.searchsorted(begin, arrival, "right")
    waiting = np.searchsorted(at, arrival, "left") - begun
    serving = begun - np.searchsorted(np.sort(release), arrival, "right")
    return way_of((begin - arrival)[(waiting <= 0) & (serving < workers)])


def _with_turnaround(release: Floats, following: Floats) -> Floats:
    """Return releases that end with the next start, if that is near: what a server does meanwhile is no idleness."""
    near = (following - release <= LONGEST) & (following > release)
    return np.where(near, following, release)


def _of(backend: _Backend, routes: Sequence[str]) -> Bools:
    return np.isin(backend.route, [code for code, name in enumerate(backend.routes) if name in routes])


def _apply(log: _Log, backend: _Backend, holds: BackendHolds, results: tuple[Floats, Floats, Floats, Floats]) -> None:
    """Fill in the end of the body, the evident end, the release, and the doubt, of the requests of a backend."""
    body_end, evident, release, in_doubt = results
    open_ = ~log.spanned[backend.places]
    certain = backend.places[open_ & _of(backend, (*holds.body, *holds.elsewhere))]
    in_doubt[certain] = 0.0
    held = open_ & _of(backend, holds.body)
    places = backend.places[held]
    body_end[places] = np.fmax(np.fmin(log.answered[places], backend.following[held]), body_end[places])
    evident[places] = release[places] = body_end[places]
    if holds.after:
        after = _after(log.visits, backend, holds, release[backend.places], ~open_)
        release[backend.places] += after


def _after(visits: Visits, backend: _Backend, holds: BackendHolds, release: Floats, spanned: Bools) -> Floats:
    """Return the time from each release until the worker was free, s: after the answers to some routes, else 0."""
    after = np.zeros(len(release))
    arrival, begin = visits.arrival[backend.places] + holds.way, visits.busy_start[backend.places]
    following = backend.following
    # Without a next request of its worker, nothing limits the time from above.
    upper = np.maximum(following - release, 0.0)
    arrived, began = (np.append(instants, np.inf)[backend.next] for instants in (arrival, begin))
    # What a worker does in a pause is not seen.
    pauses = pauses_of(arrival, begin, release, len(backend.names))
    stopped = overlap_with(pauses, release, np.where(np.isfinite(following), following, release)) > 0
    waited_for = ~stopped & (backend.next >= 0) & ((arrived <= release + TICK) | (began > arrived + LONGEST))
    lower = np.where(waited_for, upper, 0.0)
    for own in _places_of_processes(backend, holds.processes):
        # A worker that was free would have started a request that waited.
        queue = Steps.of(arrival[own], np.where(begin > arrival + LONGEST, begin, np.nan)[own])
        last = queue.emptied_before(following[own])
        lower[own] = np.where(waited_for[own], upper[own], np.clip(last - release[own], 0.0, upper[own]))
    for code in [code for code, name in enumerate(backend.routes) if name in holds.after]:
        own = np.flatnonzero((backend.route == code) & ~spanned)
        after[own] = completed(lower[own], upper[own])
    return after


def _places_of_processes(backend: _Backend, processes: Processes | None) -> list[Ints]:
    """Return the requests of each process; without processes, all of them."""
    if processes is None:
        return [np.arange(len(backend.places))]
    of_worker = np.array([processes.of_worker.get(name, 0) for name in backend.names])
    return [np.flatnonzero(of_worker[backend.worker] == number) for number in range(len(processes.workers))]
