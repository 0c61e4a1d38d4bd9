"""Logs of one backend whose workers are held by more than their services, with the truth known.

First come, first served, by W workers; each request holds its worker for a service, a body after the headers and work
after the answer. Options hide some of that from the log, or keep requests from free workers.
"""

from __future__ import annotations

import heapq
import json
import math
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

EPOCH = 1_767_225_600.0
Draw = Callable[[random.Random, str], float]


def exponential(mean: float) -> Draw:
    """Return a draw of exponential times, s."""
    return lambda rng, _: rng.expovariate(1 / mean)


def of_route(route: str, seconds: float) -> Draw:
    """Return constant times for one route, and none for others, s."""
    return lambda _, name: seconds if name == route else 0.0


def constant(seconds: float) -> Draw:
    """Return constant times, s."""
    return lambda _rng, _route: seconds


@dataclass(frozen=True)
class WorkerSystem:
    """What to simulate. Durations in s.

    Attributes:
        requests: their number.
        workers: their number.
        load: arrivals times mean ``service`` per worker.
        mean: of ``service``.
        service: until the headers.
        routes: route -> share of the requests.
        body: from the headers to the end of the answer.
        body_holds: whether a worker is held meanwhile.
        before: the worker reads the request before the app starts it.
        after: work after the answer.
        between: the worker's work between two requests.
        way: to the backend.
        groups: processes with queues of their own, of equal size; a request goes to one at random.
        limit: requests in service at most.
        slot: until one that ended gives its slot to the next.
        pauses: begin and end of times in which no worker works.
        restart: after how many requests a worker is replaced, and how long that takes.
        hidden: share of the requests that the log does not show.
        named: whether workers have names.
        burst: arrivals at once.
        seed: of the random numbers.
    """

    requests: int = 4_000
    workers: int = 4
    load: float = 0.85
    mean: float = 0.05
    service: Draw | None = None
    routes: tuple[tuple[str, float], ...] = (("/page", 0.8), ("/search", 0.2))
    body: Draw | None = None
    body_holds: bool = True
    before: Draw | None = None
    after: Draw | None = None
    between: tuple[float, float] = (0.0, 0.0)
    way: float = 0.0002
    groups: int = 1
    limit: int | None = None
    slot: tuple[float, float] = (0.0, 0.0)
    pauses: Sequence[tuple[float, float]] = ()
    restart: tuple[int, float] | None = None
    hidden: float = 0.0
    named: bool = True
    burst: int = 1
    seed: int = 1


@dataclass(frozen=True)
class WorkerTruth:
    """The truth: share of the workers' time for which they were held, and the mean wait, s.

    ``responses``: of the requests, s. ``waits``, ``holds``: intervals, s; those of holds with route and phase.
    """

    utilisation: float
    wait: float
    responses: tuple[float, ...]
    waits: tuple[tuple[float, float], ...]
    holds: tuple[tuple[float, float, tuple[str, str]], ...]

    def blame(self) -> dict[tuple[str, str], float]:
        """Return (route, phase) -> share of the waiting, in equal parts among what holds the workers."""
        events: list[tuple[float, int, tuple[str, str] | None]] = []
        for begin, end in self.waits:
            events += [(begin, 1, None), (end, -1, None)]
        for begin, end, what in self.holds:
            events += [(begin, 1, what), (end, -1, what)]
        held: dict[tuple[str, str], int] = defaultdict(int)
        seconds: dict[tuple[str, str], float] = defaultdict(float)
        waiting, before = 0, 0.0
        for instant, step, what in sorted(events, key=lambda event: event[0]):
            busy = sum(held.values())
            if waiting and busy:
                for each, number in held.items():
                    seconds[each] += (instant - before) * waiting * number / busy
            before = instant
            if what is None:
                waiting += step
            else:
                held[what] += step
        total = sum(seconds.values())
        return {what: part / total for what, part in seconds.items()}


EXPORTS = WorkerSystem(workers=2, load=0.28, routes=(("/page", 0.97), ("/export", 0.03)), body=of_route("/export", 2.0))
"""A system in which few bodies hold the workers for most of the time."""


def worker_log(path: Path, system: WorkerSystem) -> WorkerTruth:
    """Write the log of a system; return the truth."""
    rng = random.Random(system.seed)
    names, shares = zip(*system.routes, strict=True)
    rate = system.load * system.workers / system.mean
    size = system.workers // system.groups
    free = [[(EPOCH, group * size + worker) for worker in range(size)] for group in range(system.groups)]
    slots = [EPOCH] * (system.limit or 0)
    served, replaced = [0] * system.workers, [0] * system.workers
    lines: list[tuple[float, dict[str, str]]] = []
    held = waited = 0.0
    responses: list[float] = []
    waits: list[tuple[float, float]] = []
    holds: list[tuple[float, float, tuple[str, str]]] = []
    arrival = EPOCH
    service = system.service or exponential(system.mean)
    for number in range(system.requests):
        if number % system.burst == 0:
            arrival += rng.expovariate(rate / system.burst)
        route = rng.choices(names, shares)[0]
        group = free[rng.randrange(system.groups)]
        available, worker = heapq.heappop(group)
        start = max(arrival + system.way, available)
        if slots:
            start = max(start, heapq.heappop(slots))
        start = max([start, *(EPOCH + end for begin, end in system.pauses if begin <= start - EPOCH < end)])
        occupied, start = start, start + (system.before(rng, route) if system.before else 0.0)
        headers = start + service(rng, route)
        headers += sum(end - begin for begin, end in system.pauses if start - EPOCH < begin < headers - EPOCH)
        ended = headers + (system.body(rng, route) if system.body else 0.0)
        free_at = ended if system.body_holds else headers
        release = free_at + (system.after(rng, route) if system.after else 0.0)
        responses.append(ended + system.way - arrival)
        waits.append((arrival + system.way, start))
        ends = {
            "read": (occupied, start),
            "service": (start, headers),
            "body": (headers, free_at),
            "after": (free_at, release),
        }
        holds += [(begin, end, (route, phase)) for phase, (begin, end) in ends.items() if end > begin]
        if slots:
            heapq.heappush(slots, headers + (rng.uniform(*system.slot) if system.slot[1] else 0.0))
        name = f"{worker}.{replaced[worker]}"
        held += release - occupied
        waited += start - arrival
        served[worker] += 1
        if system.restart is not None and served[worker] % system.restart[0] == 0:
            release += system.restart[1]
            replaced[worker] += 1
        heapq.heappush(group, (release + rng.uniform(*system.between), worker))
        if rng.random() >= system.hidden:
            lines.append((ended, _record(system, number, route, (arrival, start, headers, ended), name)))
    lines.sort(key=lambda line: line[0])
    path.write_text("".join(json.dumps(record) + "\n" for _, record in lines))
    seconds = max(arrival, lines[-1][0]) - EPOCH
    return WorkerTruth(
        held / (system.workers * seconds), waited / system.requests, tuple(responses), tuple(waits), tuple(holds)
    )


def _record(
    system: WorkerSystem, number: int, route: str, instants: tuple[float, float, float, float], worker: str
) -> dict[str, str]:
    arrival, start, headers, ended = instants
    stamp = math.floor(arrival * 1000) / 1000
    record = {
        "time": _ms(ended + system.way),
        "request_id": f"{number:032x}",
        "service": "shop",
        "route": route,
        "method": "GET",
        "uri": route,
        "status": "200",
        "request_time": _ms(ended + system.way - arrival),
        "request_start": _ms(arrival),
        "upstream_addr": "10.0.0.1:80",
        "upstream_status": "200",
        "upstream_connect_time": "0.000",
        "upstream_header_time": _ms(headers + system.way - arrival),
        "upstream_response_time": _ms(ended + system.way - arrival),
        "queueing_delay": f"{start - stamp:.6f}",
        "service_time": f"{headers - start:.6f}",
        "proxy": "edge",
    }
    return {**record, "worker": worker} if system.named else record


def _ms(seconds: float) -> str:
    return f"{math.floor(seconds * 1000) / 1000:.3f}"
