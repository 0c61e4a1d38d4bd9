"""The open and the closed loop. Both measure from the intended instant."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np

from sojourn_lab.load.generator.client import Asks, UserRequest, failed
from sojourn_lab.load.generator.clock import Clock, sleep_until
from sojourn_lab.load.plan import ClientRecord, Plan
from sojourn_lab.load.schedules import (
    Instants,
    chosen_routes,
    constant_instants,
    diurnal_instants,
    poisson_instants,
    ramp_instants,
    service_times,
    stepped_instants,
)
from sojourn_lab.scenario.load import (
    AnyLoad,
    ClosedLoad,
    ConstantLoad,
    DiurnalLoad,
    InstantsLoad,
    PoissonLoad,
    RampLoad,
    StepsLoad,
)

Write = Callable[[ClientRecord], None]


def open_schedule(plan: Plan, rng: np.random.Generator) -> tuple[Instants, Instants]:
    """Return (instants, service times) of an open load, in seconds after the start of the warm-up."""
    instants = _instants(plan.load, plan.warmup, plan.duration, rng)
    if isinstance(plan.load, InstantsLoad) and plan.load.service_times is not None:
        return instants, np.asarray(plan.load.service_times, dtype=np.float64)[: len(instants)]
    return instants, service_times(plan.service_time, plan.distribution, len(instants), rng)


def drawn_requests(
    plan: Plan, services: Instants, rng: np.random.Generator, *, first: int = 0, user: int | None = None
) -> list[UserRequest]:
    """Return the requests of a user (None: of an open load), drawn if the plan has routes or targets.

    Args:
        plan: with routes, or the work of the tier behind that all requests need.
        services: service times of the requests, s, where the plan has no routes.
        rng: for the draws.
        first: the number of the first request.
        user: their user.
    """
    numbers = range(first, first + len(services))
    if plan.targets:
        drawn_targets = chosen_routes([target.share for target in plan.targets], len(services), rng)
        chosen_targets = [plan.targets[number] for number in drawn_targets]
        return [
            UserRequest(number, user, 0.0, target.name, url=target.url)
            for number, target in zip(numbers, chosen_targets, strict=True)
        ]
    if not plan.routes:
        own = plan.load.routes if isinstance(plan.load, InstantsLoad) else None
        names = [None] * len(services) if own is None else own[: len(services)]
        each = zip(numbers, services.tolist(), names, strict=True)
        return [UserRequest(number, user, service, name, plan.dependency) for number, service, name in each]
    chosen = chosen_routes([route.share for route in plan.routes], len(services), rng)
    # A draw for every request and route, so that one route's service times do not hang on which others there are.
    drawn = np.stack([service_times(each.service_time, each.distribution, len(services), rng) for each in plan.routes])
    times = drawn[chosen, np.arange(len(services))].tolist()
    routes = [plan.routes[number] for number in chosen]
    return [
        UserRequest(number, user, service, route.name, route.dependency, route.body, route.after, route.cpu)
        for number, service, route in zip(numbers, times, routes, strict=True)
    ]


def _instants(load: AnyLoad, warmup: float, duration: float, rng: np.random.Generator) -> Instants:
    match load:
        case PoissonLoad():
            return poisson_instants(load.rate, warmup + duration, rng)
        case ConstantLoad():
            return constant_instants(load.rate, warmup + duration)
        case RampLoad():
            steady = constant_instants(load.from_rate, warmup) if load.from_rate and warmup else np.empty(0)
            return np.concatenate([steady, warmup + ramp_instants(load.from_rate, load.to_rate, duration)])
        case StepsLoad():
            return stepped_instants(load.spells(warmup, duration), rng)
        case DiurnalLoad():
            return diurnal_instants(load.low, load.high, load.period, warmup, warmup + duration, rng)
        case InstantsLoad():
            instants = np.asarray(load.at, dtype=np.float64)
            return warmup + instants[instants < duration]
        case ClosedLoad():
            raise ValueError("a closed loop has no schedule: the system under test sets its pace")


async def attempts(plan: Plan, client: Asks, clock: Clock, request: UserRequest, intended: float, write: Write) -> None:
    """Send a request, and retry after failures as the plan's retries allow."""
    write(last := await client.outcome(request, intended))
    rules = plan.retries
    if rules is None:
        return
    # Of its own: how long one client pauses does not hang on what became of the others.
    rng = np.random.default_rng([*plan.seed, 1 << 32, request.number])
    pause = rules.backoff
    for attempt in range(2, rules.attempts + 1):
        if not failed(last):
            return
        again = clock.now() + pause * (1.0 + rules.jitter * rng.uniform(-1.0, 1.0))
        await sleep_until(clock, again)
        write(last := await client.outcome(request, again, attempt))
        pause *= rules.factor


async def offer_open(plan: Plan, client: Asks, clock: Clock, start: float, write: Write) -> list[float]:
    """Send each request at its instant, whatever the outcome of earlier ones.

    Returns:
        The intended instants (monotonic seconds) that were dropped because too many requests were in flight.
    """
    rng = np.random.default_rng(plan.seed)
    instants, services = open_schedule(plan, rng)
    requests = drawn_requests(plan, services, rng)
    in_flight: set[asyncio.Task[None]] = set()
    dropped: list[float] = []
    for instant, request in zip(instants.tolist(), requests, strict=True):
        intended = start + instant
        await sleep_until(clock, intended)
        if len(in_flight) >= plan.max_in_flight:
            dropped.append(intended)
            continue
        task = asyncio.create_task(attempts(plan, client, clock, request, intended, write))
        in_flight.add(task)
        task.add_done_callback(in_flight.discard)
    await sleep_until(clock, start + plan.warmup + plan.duration)
    if in_flight:
        await asyncio.gather(*in_flight)
    return dropped


class Pace:
    """Turns that are handed out to users who share a rate: never two within 1 / `most` seconds; None: no limit."""

    def __init__(self, most: float | None) -> None:
        self._gap = 0.0 if most is None else 1.0 / most
        self._next = -math.inf

    def turn(self, earliest: float) -> float:
        """Return the instant of the next turn, not before `earliest`."""
        start = max(earliest, self._next) if self._gap else earliest
        self._next = start + self._gap
        return start


async def offer_closed(plan: Plan, client: Asks, clock: Clock, start: float, write: Write) -> list[float]:
    """Keep `concurrency` users busy until the end; each finishes its request in flight."""
    if not isinstance(plan.load, ClosedLoad):
        raise TypeError(f"not a closed load: {plan.load!r}")
    load = plan.load
    end = start + plan.warmup + plan.duration
    # Of the requests of all users; a user for which none is left ends.
    numbers: Iterator[int] = itertools.count() if plan.most_requests is None else iter(range(plan.most_requests))
    pace = Pace(plan.most_a_second)

    async def user(index: int) -> None:
        # A generator of their own each: what one user draws does not hang on the others' timing.
        rng = np.random.default_rng([*plan.seed, index])
        intended = pace.turn(start + joins_after(load, index, plan.warmup, plan.duration))
        while intended < end and (number := next(numbers, None)) is not None:
            await sleep_until(clock, intended)
            services = service_times(plan.service_time, plan.distribution, 1, rng)
            (request,) = drawn_requests(plan, services, rng, first=number, user=index)
            await attempts(plan, client, clock, request, intended, write)
            intended = pace.turn(clock.now() + load.think_time)

    await asyncio.gather(*(user(index) for index in range(load.concurrency)))
    return []


def joins_after(load: ClosedLoad, index: int, warmup: float, duration: float) -> float:
    """Return when user `index` (from 0) first sends, in seconds after the start of the warm-up.

    Users who are there from the beginning and pause between requests are spread over one pause: they would otherwise
    all ask at the same instant, round after round.
    """
    first = load.concurrency if load.from_concurrency is None else load.from_concurrency
    if index < first:
        return load.think_time * index / first if load.think_time else 0.0
    return warmup + duration * (index - first) / (load.concurrency - first)
