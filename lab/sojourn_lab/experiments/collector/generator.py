"""`python -m sojourn_lab.experiments.collector.generator PLAN.json`: send heartbeats and reads at their instants.

A process of its own, as the generator of requests is, with its clock, its records and its verdict. Connections are kept
alive and reused: viewers' devices come through a load balancer that does so.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from pathlib import Path

import aiohttp
import msgspec
import numpy as np

from sojourn_lab.experiments.collector.plan import HEARTBEAT, VIEWERS, Offered, Traffic
from sojourn_lab.load.generator.client import ended
from sojourn_lab.load.generator.clock import HEAD_START, Clock, Heartbeat, sleep_until
from sojourn_lab.load.generator.program import exit_code
from sojourn_lab.load.generator.summary import summary_of
from sojourn_lab.load.plan import ClientRecord, Plan, Summary, Window
from sojourn_lab.load.schedules import Instants, poisson_instants
from sojourn_lab.scenario.load import PoissonLoad

Write = Callable[[ClientRecord], None]


class Sender:
    """Sends the requests of one case over kept connections."""

    def __init__(self, plan: Plan, clock: Clock) -> None:
        self._plan = plan
        self._clock = clock
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=plan.timeout),
        )

    async def close(self) -> None:
        """Close open connections."""
        await self._session.close()

    async def outcome(self, route: str, name: str, intended: float, viewer: int | None) -> ClientRecord:
        """Return the record of one request sent now; failures are recorded, not raised."""
        unix = self._clock.unix
        record = ClientRecord(
            case=self._plan.case,
            id=name,
            user=viewer,
            service_time=0.0,
            intended=unix(intended),
            sent=unix(self._clock.now()),
            route=route,
        )
        body = None if viewer is None else msgspec.json.encode({"id": name, "viewer": viewer})
        method = "GET" if body is None else "POST"
        return await ended(record, self._session, self._clock, method, self._plan.url + route, body)


async def offer(
    sender: Sender, clock: Clock, start: float, instants: Instants, route: str, viewers: int | None, write: Write
) -> None:
    """Send each request of a route at its instant (s after `start`); `viewers` take turns, None: it has no viewer."""
    under_way: set[asyncio.Task[None]] = set()

    async def one(number: int, intended: float) -> None:
        viewer = None if viewers is None else number % viewers
        write(await sender.outcome(route, f"{route[1:]}-{number}", intended, viewer))

    for number, after in enumerate(instants.tolist()):
        await sleep_until(clock, start + after)
        task = asyncio.create_task(one(number, start + after))
        under_way.add(task)
        task.add_done_callback(under_way.discard)
    if under_way:
        await asyncio.gather(*under_way)


async def offered(traffic: Traffic) -> Offered:
    """Offer the load, write client.jsonl line by line, and return the summaries."""
    plan = traffic.plan
    clock = Clock()
    sender = Sender(plan, clock)
    encode = msgspec.json.Encoder().encode
    records: list[ClientRecord] = []
    horizon = plan.warmup + plan.duration
    beats = poisson_instants(traffic.rate, horizon, np.random.default_rng([*plan.seed, 0]))
    rate = traffic.read_rate
    reads = poisson_instants(rate, horizon, np.random.default_rng([*plan.seed, 1])) if rate else np.empty(0)
    try:
        async with Heartbeat(clock) as ticks:
            start = clock.now() + HEAD_START
            since, until = start + plan.warmup, start + horizon
            cpu_before = time.process_time()
            with Path(plan.client_log).open("wb") as log:

                def write(record: ClientRecord) -> None:
                    records.append(record)
                    log.write(encode(record) + b"\n")

                await asyncio.gather(
                    offer(sender, clock, start, beats, HEARTBEAT, traffic.viewers, write),
                    offer(sender, clock, start, reads, VIEWERS, None, write),
                    sleep_until(clock, until),
                )
                cpu = (time.process_time() - cpu_before) / (clock.now() - start)
    finally:
        await sender.close()
    window, lateness = Window(clock.unix(since), clock.unix(until)), ticks.lateness_between(since, until)

    def of(route: str, rate: float) -> Summary:
        actual_plan = msgspec.structs.replace(plan, load=PoissonLoad(rate))
        mine = [each for each in records if each.route == route]
        return summary_of(actual_plan, window, records=mine, dropped=[], loop_lag=lateness, cpu=cpu)

    return Offered(of(HEARTBEAT, traffic.rate), of(VIEWERS, rate) if rate else None)


def main(arguments: list[str]) -> int:
    """Return the exit code: 2 for an invalid plan, 0 also for a void run."""

    def run(traffic: Traffic) -> None:
        Path(traffic.plan.summary).write_bytes(msgspec.json.encode(asyncio.run(offered(traffic))))

    return exit_code("generator", Traffic, arguments, run)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
