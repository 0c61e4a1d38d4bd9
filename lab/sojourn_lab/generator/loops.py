"""The two ways to offer load. Both work from the intended instant and never from convenience."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sojourn_lab.generator.client import Client
from sojourn_lab.generator.clock import Clock, sleep_until
from sojourn_lab.load import AnyLoad, ClosedLoad, ConstantLoad, InstantsLoad, PoissonLoad, RampLoad
from sojourn_lab.plan import ClientRecord, Plan
from sojourn_lab.schedules import (
    Instants,
    chosen_routes,
    constant_instants,
    poisson_instants,
    ramp_instants,
    service_times,
)

Write = Callable[[ClientRecord], None]


@dataclass
class Dropped:
    """The intended instants (monotonic seconds) that were refused because too much was in flight."""

    instants: list[float]


def open_schedule(plan: Plan, rng: np.random.Generator) -> tuple[Instants, Instants]:
    """Return (instants, service times) of an open load, in seconds after the start of the warm-up."""
    instants = _instants(plan.load, plan.warmup, plan.duration, rng)
    if isinstance(plan.load, InstantsLoad) and plan.load.service_times is not None:
        return instants, np.asarray(plan.load.service_times, dtype=np.float64)[: len(instants)]
    return instants, service_times(plan.service_time, plan.distribution, len(instants), rng)


def drawn_requests(
    plan: Plan, count: int, services: Instants, rng: np.random.Generator
) -> tuple[Instants, list[str | None]]:
    """Return (service times, routes) of `count` requests: as they are, or by the plan's routes where it has any."""
    if not plan.routes:
        return services, [None] * count
    chosen = chosen_routes([route.share for route in plan.routes], count, rng)
    # A draw for every request and route, so that one route's service times do not hang on which others there are.
    drawn = np.stack([service_times(each.service_time, each.distribution, count, rng) for each in plan.routes])
    return drawn[chosen, np.arange(count)], [plan.routes[number].name for number in chosen]


def _instants(load: AnyLoad, warmup: float, duration: float, rng: np.random.Generator) -> Instants:
    match load:
        case PoissonLoad():
            return poisson_instants(load.rate, warmup + duration, rng)
        case ConstantLoad():
            return constant_instants(load.rate, warmup + duration)
        case RampLoad():
            steady = constant_instants(load.from_rate, warmup) if load.from_rate and warmup else np.empty(0)
            return np.concatenate([steady, warmup + ramp_instants(load.from_rate, load.to_rate, duration)])
        case InstantsLoad():
            listed = np.asarray(load.at, dtype=np.float64)
            return warmup + listed[listed < duration]
        case ClosedLoad():
            raise ValueError("a closed loop has no schedule: the system under test sets its pace")


async def offer_open(plan: Plan, client: Client, clock: Clock, start: float, write: Write) -> Dropped:
    """Send each request at its instant, whatever became of those before; return what was dropped."""
    rng = np.random.default_rng(plan.seed)
    instants, services = open_schedule(plan, rng)
    services, routes = drawn_requests(plan, len(instants), services, rng)
    in_flight: set[asyncio.Task[None]] = set()
    dropped = Dropped([])

    async def send(number: int, intended: float, service: float, route: str | None) -> None:
        write(await client.outcome(number, None, service, intended, route))

    for number, (after, service, route) in enumerate(zip(instants.tolist(), services.tolist(), routes, strict=True)):
        intended = start + after
        await sleep_until(clock, intended)
        if len(in_flight) >= plan.max_in_flight:
            dropped.instants.append(intended)
            continue
        task = asyncio.create_task(send(number, intended, service, route))
        in_flight.add(task)
        task.add_done_callback(in_flight.discard)
    await sleep_until(clock, start + plan.warmup + plan.duration)
    if in_flight:
        await asyncio.gather(*in_flight)
    return dropped


async def offer_closed(plan: Plan, client: Client, clock: Clock, start: float, write: Write) -> Dropped:
    """Keep `concurrency` users busy until the end; each finishes the request it has in flight."""
    if not isinstance(plan.load, ClosedLoad):
        raise TypeError(f"not a closed load: {plan.load!r}")
    think_time = plan.load.think_time
    end = start + plan.warmup + plan.duration
    numbers = itertools.count()

    async def user(index: int) -> None:
        # A generator of their own each: what one user draws does not hang on the others' timing.
        rng = np.random.default_rng([*plan.seed, index])
        intended = start
        while intended < end:
            await sleep_until(clock, intended)
            service = service_times(plan.service_time, plan.distribution, 1, rng)
            service, routes = drawn_requests(plan, 1, service, rng)
            write(await client.outcome(next(numbers), index, float(service[0]), intended, routes[0]))
            intended = clock.now() + think_time

    await asyncio.gather(*(user(index) for index in range(plan.load.concurrency)))
    return Dropped([])
