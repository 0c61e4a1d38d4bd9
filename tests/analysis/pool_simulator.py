"""An exact simulator of requests through nginx to a pool of backends with several workers each, with exact blame.

Instants are real-valued; nginx's clock shows them cut down to a millisecond, and each backend's clock is off by its
skew. What is drawn (arrivals, routes, services, tenants) depends on the seed alone, so the same requests can be sent
through another set-up: more workers, another balancer, another discipline.

The exact blame is computed from one instant to the next, with the sets of requests waiting and in service: slow, plain,
and independent of the sweep of the analysis.
"""

from __future__ import annotations

import heapq
import itertools
import json
import math
import random
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import NamedTuple

EPOCH = 1_767_225_600.0


class Route(NamedTuple):
    """Share of the requests, mean service time (s), and its distribution: exponential, constant or lognormal."""

    share: float
    mean: float
    distribution: str = "exponential"


class Surge(NamedTuple):
    """From ``begin`` to ``end`` (s) ``factor`` times as many arrivals, of one route or of all."""

    begin: float
    end: float
    factor: float
    route: str | None = None


SHOP: Mapping[str, Route] = {
    "/product": Route(0.60, 0.030),
    "/search": Route(0.35, 0.060),
    "/export": Route(0.05, 1.200),
}
TENANTS = {"acme": 0.7, "globex": 0.2, "initech": 0.1}


@dataclass(frozen=True)
class PoolSettings:
    """What to simulate. Durations in s.

    Attributes:
        requests: their number.
        rate: arrivals per s.
        routes: name -> route.
        surges: times of a higher rate.
        backends: their number.
        workers: per backend.
        balancer: round_robin, least_conn (ties in turn) or two_choices; shared: one queue for all backends.
        discipline: fifo or lifo, at each backend.
        timeout: nginx answers 504 when no headers came this long after the stamp; the work is done all the same.
        patience: (share of clients, s): they leave after that, with 499.
        client_retries: how often a client sends a failed request again.
        backoff: time before a client sends it again.
        streams: route -> mean time the worker goes on streaming after its headers.
        skews: by how much the clock of each backend is ahead.
        one_way: mean time through the network.
        seed: of the random numbers.
    """

    requests: int = 20_000
    rate: float = 26.0
    routes: Mapping[str, Route] = field(default_factory=lambda: SHOP)
    surges: tuple[Surge, ...] = ()
    backends: int = 2
    workers: int = 2
    balancer: str = "round_robin"
    discipline: str = "fifo"
    timeout: float | None = None
    patience: tuple[float, float] = (0.0, 0.0)
    client_retries: int = 0
    backoff: float = 0.2
    streams: Mapping[str, float] = field(default_factory=dict)
    skews: tuple[float, ...] = (0.137, -0.052)
    one_way: float = 0.0003
    seed: int = 7


@dataclass
class PoolRequest:
    """One request; instants in s after ``EPOCH``."""

    number: int
    start: float
    route: str
    tenant: str
    service: float
    stream: float
    patience: float
    client: str
    uri: str
    attempt: int = 0
    request_id: str = ""
    stamp: float = 0.0
    backend: int = -1
    worker: int = -1
    connected: float = 0.0
    begun: float = math.nan
    free: float = math.nan
    received: float = math.nan
    end: float = math.nan
    status: int = 200

    @property
    def wait_end(self) -> float:
        """The end of its wait: a worker took it, or it was abandoned before that."""
        return min(self.begun, self.end) if self.status in (499, 504) else self.begun


@dataclass
class PoolTruth:
    """The exact figures, in s.

    Attributes:
        settings: what was simulated.
        requests: in the order of their numbers.
        skews: backend -> by how much its clock is ahead.
        waited: sum of all waits.
        dispatch, imbalance: waits that are charged to no request.
        matrix: (victim's route, culprit's route) -> seconds.
        caused: number -> seconds that others waited for this request.
        accounts: number -> (dispatch, imbalance, blamed).
    """

    settings: PoolSettings
    requests: list[PoolRequest]
    skews: dict[str, float]
    waited: float = 0.0
    dispatch: float = 0.0
    imbalance: float = 0.0
    matrix: dict[tuple[str, str], float] = field(default_factory=dict)
    caused: dict[int, float] = field(default_factory=dict)
    accounts: dict[int, tuple[float, float, float]] = field(default_factory=dict)

    @property
    def blamed(self) -> float:
        return math.fsum(self.matrix.values())

    @property
    def responses(self) -> list[float]:
        return [r.end - r.start for r in self.requests]

    @property
    def waits(self) -> list[float]:
        return [r.wait_end - r.stamp for r in self.requests]

    def wasted(self) -> dict[str, float]:
        """Route -> seconds of workers held by abandoned requests."""
        result: dict[str, float] = defaultdict(float)
        for r in self.requests:
            if r.status in (499, 504):
                result[r.route] += r.free - r.begun
        return dict(result)


def simulated_pool(settings: PoolSettings = PoolSettings()) -> tuple[list[dict[str, str]], PoolTruth]:
    """Records in the order nginx writes them, and the truth about them."""
    requests = _served(settings, _drawn(settings))
    addresses = [f"10.0.0.{i + 1}:8080" for i in range(settings.backends)]
    skews = {address: _skew(settings, i) for i, address in enumerate(addresses)}
    truth = PoolTruth(settings, requests, skews)
    _charge_waits(truth)
    records = [_record(r, settings, addresses[r.backend]) for r in sorted(requests, key=lambda r: (r.end, r.number))]
    return records, truth


def as_lines(records: Sequence[Mapping[str, object]]) -> list[bytes]:
    """JSON lines, as a file holds them."""
    return [json.dumps(record, separators=(",", ":")).encode() + b"\n" for record in records]


def span_lines(truth: PoolTruth, *, every: bool = False) -> list[bytes]:
    """OTLP/JSON lines of the app: of abandoned and streaming requests, or of every request."""
    reported = [r for r in truth.requests if every or r.status in (499, 504) or r.stream > 0]
    return as_lines([_span(r, truth.settings) for r in sorted(reported, key=lambda r: (r.free, r.number))])


def late_log(truth: PoolTruth) -> list[bytes]:
    """The app's own log: a line for every request when its worker was free again."""
    done = sorted(truth.requests, key=lambda r: (r.free, r.number))
    return as_lines(
        [
            {
                "request_id": r.request_id,
                "service_time": round(r.free - r.begun, 6),
                "start": round(EPOCH + r.begun + _skew(truth.settings, r.backend), 6),
                "route": r.route,
                "worker": _worker_name(r),
            }
            for r in done
        ]
    )


# --- what is drawn


def _drawn(settings: PoolSettings) -> list[PoolRequest]:
    arrivals, services, others = (random.Random(f"{settings.seed} {kind}") for kind in ("arrivals", "services", "more"))
    bounds = sorted({s.begin for s in settings.surges} | {s.end for s in settings.surges})
    clock, drawn = 0.0, []
    for number in range(settings.requests):
        due = arrivals.expovariate(1.0)
        while True:  # the integral of the rate up to the next arrival is a unit exponential
            weights = _weights(settings, clock)
            rate = settings.rate * sum(weights.values())
            change = next((b for b in bounds if b > clock), math.inf)
            if clock + due / rate < change:
                clock += due / rate
                break
            due -= (change - clock) * rate
            clock = change
        route = services.choices(list(weights), list(weights.values()))[0]
        service = _duration(services, settings.routes[route])
        stream = others.expovariate(1.0) * settings.streams.get(route, 0.0)
        tenant = others.choices(list(TENANTS), list(TENANTS.values()))[0]
        share, seconds = settings.patience
        leaves = seconds if others.random() < share else math.inf
        client = f"192.0.2.{others.randrange(1, 255)}"
        drawn.append(PoolRequest(number, clock, route, tenant, service, stream, leaves, client, f"{route}/{number}"))
    return drawn


def _weights(settings: PoolSettings, instant: float) -> dict[str, float]:
    weights = {}
    for name, route in settings.routes.items():
        weights[name] = route[0]
        for surge in settings.surges:
            if surge.begin <= instant < surge.end and surge.route in (None, name):
                weights[name] *= surge.factor
    return weights


def _duration(rng: random.Random, route: Sequence[object]) -> float:
    _, mean, distribution = (*route, "exponential")[:3]
    assert isinstance(mean, float)
    unit = rng.expovariate(1.0)
    if distribution == "constant":
        return mean
    if distribution == "lognormal":  # squared coefficient of variation 1
        normal = NormalDist().inv_cdf(-math.expm1(-unit))
        return mean * math.exp(normal * math.sqrt(math.log(2)) - math.log(2) / 2)
    assert distribution == "exponential", distribution
    return mean * unit


# --- what becomes of it


class _Pool:
    """Queues and free workers; with a shared queue, every backend takes from the first."""

    def __init__(self, settings: PoolSettings) -> None:
        self.lifo = settings.discipline == "lifo"
        self.shared = settings.balancer == "shared"
        self.queues: list[deque[PoolRequest]] = [deque() for _ in range(settings.backends)]
        self.free = [deque(range(settings.workers)) for _ in range(settings.backends)]

    def queue(self, backend: int) -> deque[PoolRequest]:
        return self.queues[0 if self.shared else backend]

    def next(self, backend: int) -> PoolRequest | None:
        queue = self.queue(backend)
        if not queue or not self.free[backend]:
            return None
        request = queue.pop() if self.lifo else queue.popleft()
        request.backend = backend
        return request


def _served(settings: PoolSettings, drawn: list[PoolRequest]) -> list[PoolRequest]:
    network = random.Random(f"{settings.seed} network")
    pool = _Pool(settings)
    open_connections = [0] * settings.backends
    current = [0] * settings.backends
    order = itertools.count()
    events: list[tuple[float, int, str, PoolRequest]] = []
    requests = list(drawn)
    for request in drawn:
        request.request_id = _id(settings, network)
        heapq.heappush(events, (request.start, next(order), "arrives", request))

    def take(backend: int, now: float) -> None:
        while (request := pool.next(backend)) is not None:
            request.worker = pool.free[backend].popleft()
            request.begun = now
            headers = now + request.service
            request.free = headers + request.stream
            request.received = headers + network.uniform(0.5, 1.5) * settings.one_way
            heapq.heappush(events, (request.free, next(order), "done", request))
            heapq.heappush(events, (request.received, next(order), "answered", request))

    while events:
        now, _, kind, request = heapq.heappop(events)
        if kind == "arrives":
            request.stamp = request.start + network.uniform(0, 0.0002)
            request.backend = _chosen(settings, open_connections, current, network)
            open_connections[request.backend] += 1
            request.connected = request.stamp + 2 * settings.one_way
            reaches = request.connected + network.uniform(0.5, 1.5) * settings.one_way
            heapq.heappush(events, (reaches, next(order), "reaches", request))
            leaves = request.stamp + min(settings.timeout or math.inf, request.patience)
            if leaves < math.inf:
                heapq.heappush(events, (leaves, next(order), "given up", request))
        elif kind == "reaches":
            pool.queue(request.backend).append(request)
            if pool.shared:
                free = max(range(settings.backends), key=lambda b: len(pool.free[b]))
                take(free, now)
            else:
                take(request.backend, now)
        elif kind == "answered" and request.status == 200:
            request.end = max(now, request.free) + network.uniform(0, 0.0005)
            heapq.heappush(events, (request.end, next(order), "closed", request))
        elif kind == "closed":
            open_connections[request.backend] -= 1
        elif kind == "given up" and not now >= request.received:
            request.status = 499 if request.patience <= (settings.timeout or math.inf) else 504
            request.end = now
            open_connections[request.backend] -= 1
            if request.attempt < settings.client_retries:
                again = _again(request, len(requests), now + settings.backoff, _id(settings, network))
                requests.append(again)
                heapq.heappush(events, (again.start, next(order), "arrives", again))
        elif kind == "done":
            pool.free[request.backend].append(request.worker)
            take(request.backend, now)
    return requests


def _again(request: PoolRequest, number: int, start: float, request_id: str) -> PoolRequest:
    return PoolRequest(
        number, start, request.route, request.tenant, request.service, request.stream, request.patience,
        request.client, request.uri, request.attempt + 1, request_id,
    )  # fmt: skip


def _id(settings: PoolSettings, rng: random.Random) -> str:
    return f"{settings.seed:016x}{rng.getrandbits(64):016x}"


def _chosen(settings: PoolSettings, connections: list[int], current: list[int], rng: random.Random) -> int:
    """The backend; ``current`` holds whose turn it is, as nginx's smooth round robin has it."""
    count = settings.backends
    if settings.balancer == "two_choices" and count > 1:
        one, other = rng.sample(range(count), 2)
        return one if connections[one] <= connections[other] else other
    assert settings.balancer in ("round_robin", "shared", "least_conn"), settings.balancer
    fewest = min(connections)
    # nginx's least_conn takes turns only among those with equally few; the others keep theirs.
    among = [b for b in range(count) if settings.balancer != "least_conn" or connections[b] == fewest]
    if len(among) == 1:
        return among[0]
    for b in among:
        current[b] += 1
    chosen = max(among, key=lambda b: (current[b], -b))
    current[chosen] -= len(among)
    return chosen


# --- exact blame


def _charge_waits(truth: PoolTruth) -> None:
    """Walk from instant to instant; in between, each waiting request is charged to one account."""
    workers = truth.settings.workers
    waiting: dict[int, set[int]] = {b: set() for b in range(truth.settings.backends)}
    serving: dict[int, set[int]] = {b: set() for b in range(truth.settings.backends)}
    changes = []
    for request in truth.requests:
        place, number = request.backend, request.number
        changes += [(request.stamp, waiting[place].add, number), (request.wait_end, waiting[place].discard, number)]
        changes += [(request.begun, serving[place].add, number), (request.free, serving[place].discard, number)]
    changes.sort(key=lambda change: change[0])
    routes = [r.route for r in truth.requests]
    dispatch, imbalance, blamed, caused, cells = (defaultdict(list) for _ in range(5))
    before = changes[0][0] if changes else 0.0
    for instant, change, number in changes:
        seconds = instant - before
        if seconds > 0:
            idle = [b for b, held in serving.items() if len(held) < workers]
            for place, victims in waiting.items():
                for victim in victims:
                    if place in idle:
                        dispatch[victim].append(seconds)
                    elif idle:
                        imbalance[victim].append(seconds)
                    else:
                        blamed[victim].append(seconds)
                        for culprit in serving[place]:
                            share = seconds / len(serving[place])
                            caused[culprit].append(share)
                            cells[routes[victim], routes[culprit]].append(share)
        before = instant
        change(number)
    truth.matrix = {cell: math.fsum(parts) for cell, parts in cells.items()}
    truth.caused = {number: math.fsum(parts) for number, parts in caused.items()}
    truth.accounts = {
        r.number: (math.fsum(dispatch[r.number]), math.fsum(imbalance[r.number]), math.fsum(blamed[r.number]))
        for r in truth.requests
    }
    truth.waited = math.fsum(truth.waits)
    truth.dispatch = math.fsum(account[0] for account in truth.accounts.values())
    truth.imbalance = math.fsum(account[1] for account in truth.accounts.values())


# --- what is written


def _skew(settings: PoolSettings, backend: int) -> float:
    return settings.skews[backend % len(settings.skews)] if settings.skews else 0.0


def _worker_name(request: PoolRequest) -> str:
    return str(1000 + 100 * request.backend + request.worker)


def _record(request: PoolRequest, settings: PoolSettings, address: str) -> dict[str, str]:
    begun = EPOCH + request.begun + _skew(settings, request.backend)
    gone = request.status in (499, 504)
    return {
        "time": _ms(request.end),
        "request_id": request.request_id,
        "service": "shop",
        "route": request.route,
        "tenant": request.tenant,
        "method": "GET",
        "uri": request.uri,
        "status": str(request.status),
        "remote_addr": request.client,
        "request_time": _between(request.start, request.end),
        "request_start": _ms(request.stamp),
        "upstream_addr": address,
        "upstream_status": "-" if request.status == 499 else str(request.status),
        "upstream_connect_time": _between(request.stamp, request.connected),
        "upstream_header_time": "-" if gone else _between(request.stamp, request.received),
        "upstream_response_time": _between(request.stamp, request.end),
        "queueing_delay": "" if gone else f"{begun - math.floor((EPOCH + request.stamp) * 1000) / 1000:.6f}",
        "service_time": "" if gone else f"{request.service:.6f}",
        "worker": "" if gone else _worker_name(request),
        "proxy": "edge-1",
    }


def _span(request: PoolRequest, settings: PoolSettings) -> dict[str, object]:
    skew = EPOCH + _skew(settings, request.backend)
    attributes = {
        "http.request.header.x-request-id": {"arrayValue": {"values": [{"stringValue": request.request_id}]}},
        "http.route": {"stringValue": request.route},
        "queueing.service_time": {"doubleValue": round(request.service, 6)},
        "queueing.worker": {"stringValue": _worker_name(request)},
    }
    span = {
        "traceId": request.request_id,
        "spanId": request.request_id[:16],
        "name": f"GET {request.route}",
        "kind": 2,
        "startTimeUnixNano": str(round((skew + request.begun) * 1e6) * 1000),
        "endTimeUnixNano": str(round((skew + request.free) * 1e6) * 1000),
        "attributes": [{"key": key, "value": value} for key, value in attributes.items()],
    }
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": [span]}]}]}


def _ms(instant: float) -> str:
    return f"{math.floor((EPOCH + instant) * 1000) / 1000:.3f}"


def _between(earlier: float, later: float) -> str:
    return f"{(math.floor((EPOCH + later) * 1000) - math.floor((EPOCH + earlier) * 1000)) / 1000:.3f}"
