"""Requests, what is drawn for them, and the changes that a kind of system can be simulated with."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Request:
    """One request; instants and durations in s.

    Attributes:
        number: its number, from 0.
        start: first byte at nginx.
        upload: until nginx turns to the app.
        send: after the answer, to the client.
        route: its route.
        before: the worker is held before the app's start.
        service: from the app's start to the headers.
        body: from the headers to the end of the answer.
        after: from the end of the answer to the release of the worker.
        client: number of its client.
        hidden: its record is not in the log.
        timeout: nginx or the client gives up so long after the stamp.
        give_up: the status if that happens: 504 or 499.
        status: of its record.
        gated, reached, got_worker, begun, headers, answered, released, freed, end: turned to the app (a limit in front
            let it pass), at the backend, taken by a worker, app start, headers, end of the answer at the app, worker
            released and ready for the next request, end at nginx.
        inner: waited inside its service for a lock or a connection.
        loop: waited for an event loop before the app's start.
        clock: by how much its backend's clock is ahead; NaN: the usual skew of the backend.
        backend, group: the place: a process group of a backend.
        address: of the upstream.
        worker: name of its worker.
    """

    number: int
    start: float
    route: str
    service: float
    body: float = 0.0
    after: float = 0.0
    before: float = 0.0
    upload: float = 0.0001
    send: float = 0.0002
    client: int = 0
    hidden: bool = False
    timeout: float = math.inf
    give_up: int = 504
    status: int = 200
    gated: float = math.nan
    reached: float = math.nan
    got_worker: float = math.nan
    begun: float = math.nan
    headers: float = math.nan
    answered: float = math.nan
    released: float = math.nan
    freed: float = math.nan
    end: float = math.nan
    inner: float = 0.0
    loop: float = 0.0
    clock: float = math.nan
    backend: int = 0
    group: int = 0
    address: str = ""
    worker: str = ""

    @property
    def stamp(self) -> float:
        """The instant at which nginx built the upstream request."""
        return self.start + self.upload

    @property
    def queued(self) -> float:
        """Seconds spent waiting for a slot of a limit in front, for a worker, and for an event loop to turn to it."""
        return (self.gated - self.stamp) + (self.got_worker - self.reached) + self.loop


@dataclass(frozen=True)
class Change:
    """A change of the system; arrivals and demands stay.

    Attributes:
        workers: added per backend.
        total: number of workers of the whole system instead; backends keep their size.
        scale: route -> factor of all its phases.
        one_queue: the processes of a backend take requests from one queue.
        never_absent: workers are not replaced.
        limit: added to the limit in front of the workers.
        cores: added to what services share.
        dependency: factor of the time that services spend there.
    """

    workers: int = 0
    total: int | None = None
    scale: Mapping[str, float] = field(default_factory=dict)
    one_queue: bool = False
    never_absent: bool = False
    limit: int = 0
    cores: int = 0
    dependency: float = 1.0


AS_IT_IS = Change()


def rng_of(seed: int | str) -> random.Random:
    """Return a source of pseudo-random numbers."""
    return random.Random(seed)  # noqa: S311 - a simulation


Demand = Callable[[random.Random], float]


def exponential(mean: float) -> Demand:
    """Return a draw of exponential times."""
    return lambda rng: rng.expovariate(1 / mean)


def lognormal(mean: float, sigma: float = 0.5) -> Demand:
    """Return a draw of lognormal times."""
    mu = math.log(mean) - sigma * sigma / 2
    return lambda rng: rng.lognormvariate(mu, sigma)


def uniform(low: float, high: float) -> Demand:
    """Return a draw of uniform times."""
    return lambda rng: rng.uniform(low, high)


@dataclass(frozen=True)
class Route:
    """A route: its share of the requests and its demands, s; ``upgraded``: to WebSocket, for the time of its body."""

    name: str
    share: float
    service: Demand
    body: Demand | None = None
    after: Demand | None = None
    before: Demand | None = None
    upgraded: bool = False


PAGE = Route("/page", 0.7, lognormal(0.060))
SEARCH = Route("/search", 0.3, lognormal(0.120))
PAGES = (PAGE, SEARCH)


def drawn(
    count: int,
    rate: float | Callable[[float], float],
    routes: Sequence[Route] = PAGES,
    *,
    seed: int = 1,
    change: Change = AS_IT_IS,
    most_rate: float = 1.0,
) -> list[Request]:
    """Draw Poisson arrivals and their demands, the same for every change.

    Args:
        count: number of requests.
        rate: arrivals/s; as a function of time, at most ``most_rate``.
        routes: with shares.
        seed: of the draws.
        change: its ``scale`` applies.
        most_rate: of a rate that is a function.
    """
    rng = rng_of(seed)
    clock = 0.0
    requests: list[Request] = []
    shares = [route.share for route in routes]
    while len(requests) < count:
        if callable(rate):
            clock += rng.expovariate(most_rate)
            if rng.random() * most_rate > rate(clock):
                continue
        else:
            clock += rng.expovariate(rate)
        route = rng.choices(routes, shares)[0]
        requests.append(request_of(rng, len(requests), clock, route, change))
    return requests


def request_of(rng: random.Random, number: int, start: float, route: Route, change: Change = AS_IT_IS) -> Request:
    """Return a request of a route with drawn demands."""
    factor = change.scale.get(route.name, 1.0)
    return Request(
        number,
        start,
        route.name,
        route.service(rng) * factor,
        body=route.body(rng) * factor if route.body else 0.0,
        after=route.after(rng) * factor if route.after else 0.0,
        before=route.before(rng) * factor if route.before else 0.0,
        status=101 if route.upgraded else 200,
        upload=rng.uniform(0.0, 0.0003),
        send=rng.uniform(0.0, 0.0005),
        client=rng.randrange(40),
    )
