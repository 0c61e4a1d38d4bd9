"""`python -m sojourn_lab.experiments.websocket.generator PLAN.json`: open, query and hold WebSocket connections."""

from __future__ import annotations

import asyncio
import resource
import sys
import time
from contextvars import ContextVar
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import msgspec
import numpy as np

from sojourn_lab.experiments.websocket.plan import Connection, ConnectionPlan, ConnectionSummary, ServerTimes
from sojourn_lab.load.generator.client import kind_of_failure
from sojourn_lab.load.generator.clock import HEAD_START, Clock, Heartbeat, sleep_until
from sojourn_lab.load.generator.program import exit_code
from sojourn_lab.load.generator.summary import quantiles_of
from sojourn_lab.load.plan import Window
from sojourn_lab.load.schedules import Instants

FAILED_PAUSE = 0.05
"""Seconds after a failure until a user tries again: a refused connection costs nothing and would be tried at once."""

CLOSING = 5.0
"""Seconds for the other side to answer a close."""

WebSocket = aiohttp.ClientWebSocketResponse

_under_way: ContextVar[Connection] = ContextVar("connection")


class Answer(msgspec.Struct):
    """The app's response to a data-sync."""

    type: str
    variations: dict[str, int]
    server: ServerTimes


def poisson_ramp(rate: float, horizon: float, rng: np.random.Generator) -> Instants:
    """Return the instants of a Poisson process whose rate rises from 0 to `rate` per second over the horizon, s.

    The expected number up to t is N(t) = rate·t² / (2·horizon); a Poisson process of rate 1 in N becomes one of that
    rate in t (Lewis & Shedler 1979, Simulation of nonhomogeneous Poisson processes by thinning, section 1).
    """
    total = rate * horizon / 2.0
    units: list[Instants] = []
    last = 0.0
    while last < total:
        block = last + np.cumsum(rng.exponential(1.0, max(16, int(1.1 * (total - last)))))
        last = float(block[-1])
        units.append(block)
    passed = np.concatenate(units) if units else np.empty(0)
    return horizon * np.sqrt(passed[passed < total] / total)


class Connections:
    """The connections of one stage, made and held."""

    def __init__(self, plan: ConnectionPlan, clock: Clock) -> None:
        self._plan = plan
        self._clock = clock
        self._answer = msgspec.json.Decoder(Answer)
        self._ending = False
        self._open: set[WebSocket] = set()
        self.records: list[Connection] = []
        tracing = aiohttp.TraceConfig()
        tracing.on_connection_create_end.append(self._connected)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, force_close=True),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),
            trace_configs=[tracing],
        )

    async def _connected(self, _session: aiohttp.ClientSession, _context: SimpleNamespace, _params: Any) -> None:
        _under_way.get().connected = self._clock.unix(self._clock.now())

    async def answered(self, number: int, intended: float) -> WebSocket | None:
        """Connect now and request the flags; return the open connection, None after a failure (see its record)."""
        unix, now = self._clock.unix, self._clock.now
        record = Connection(self._plan.case, number, unix(intended), unix(now()))
        self.records.append(record)
        _under_way.set(record)
        connection: WebSocket | None = None
        headers = {"X-Lab-Case": self._plan.case}
        try:
            async with asyncio.timeout(self._plan.timeout):
                connection = await self._session.ws_connect(self._plan.url, headers=headers, timeout=_patience())
                record.upgraded = unix(now())
                record.sent = unix(now())
                await connection.send_json({"type": "data-sync", "user": f"u{number}"})
                answer = await connection.receive_str()
                record.answered = unix(now())
            record.server = self._answer.decode(answer).server
        except (aiohttp.ClientError, aiohttp.WebSocketError, TimeoutError, OSError) as error:
            record.error = kind_of_failure(error)
        except (TypeError, ValueError):
            record.error = "malformed"  # no text, or not an answer
        if record.error is None:
            return connection
        if connection is not None:
            await connection.close()
        return None

    async def hold(self, number: int, intended: float, settled: asyncio.Semaphore) -> None:
        """Connect, request the flags, answer pings until the end; `settled` is released after the response."""
        try:
            connection = await self.answered(number, intended)
        finally:
            settled.release()
        if connection is None:
            return
        self._open.add(connection)
        record = _under_way.get()
        async for _ in connection:
            pass
        self._open.discard(connection)
        if not self._ending:
            record.lost = self._clock.unix(self._clock.now())

    async def close(self) -> None:
        """Close open connections."""
        self._ending = True
        await asyncio.gather(*(connection.close() for connection in self._open), return_exceptions=True)

    async def end(self) -> None:
        """Close open connections and the session."""
        await self.close()
        await self._session.close()


def _patience() -> aiohttp.ClientWSTimeout:
    return aiohttp.ClientWSTimeout(ws_receive=None, ws_close=CLOSING)


async def made_one_by_one(plan: ConnectionPlan, connections: Connections, clock: Clock) -> ConnectionSummary:
    """Open connections one after the other, so that none waits for another. Then measure the capacity."""
    since = clock.now()
    for number in range(plan.sequential):
        connection = await connections.answered(number, clock.now())
        if connection is not None:
            await connection.close()
    until = clock.now()
    window = Window(clock.unix(since), clock.unix(until))
    late = quantiles_of(each.began - each.intended for each in connections.records)
    capacity = await answers_per_second(plan, connections, clock)
    del connections.records[plan.sequential :]
    return ConnectionSummary(window, window.until, window.until, plan.sequential, late, capacity=capacity)


async def answers_per_second(plan: ConnectionPlan, connections: Connections, clock: Clock) -> float:
    """Return how many connections a second the app can answer, with users who keep it busy.

    Answers in the first quarter of the time are not counted: the users start one after the other.
    """
    start = clock.now()
    counted, end = start + plan.saturated / 4.0, start + plan.saturated
    answers: list[float] = []

    async def user() -> None:
        while clock.now() < end:
            connection = await connections.answered(plan.sequential, clock.now())
            if connection is None:
                await asyncio.sleep(FAILED_PAUSE)
                continue
            answers.append(clock.now())
            await connection.close()

    await asyncio.gather(*(user() for _ in range(plan.users)))
    return sum(counted <= instant < end for instant in answers) / (end - counted)


async def made_on_schedule(plan: ConnectionPlan, connections: Connections, clock: Clock) -> ConnectionSummary:
    """Open each connection at its instant, whatever the outcome of earlier ones, and hold all."""
    instants = poisson_ramp(plan.rate, plan.ramp, np.random.default_rng(plan.seed)).tolist()
    settled = asyncio.Semaphore(0)
    async with Heartbeat(clock) as heartbeat:
        start = clock.now() + HEAD_START
        cpu_before = time.process_time()
        tasks = []
        for number, after in enumerate(instants):
            await sleep_until(clock, start + after)
            tasks.append(asyncio.create_task(connections.hold(number, start + after, settled)))
        await sleep_until(clock, start + plan.ramp)
        cpu = (time.process_time() - cpu_before) / (clock.now() - start)
        for _ in tasks:
            await settled.acquire()
        quiet = clock.now()
        await sleep_until(clock, quiet + plan.hold)
        ended = clock.now()
        await connections.close()
        await asyncio.gather(*tasks)
    return ConnectionSummary(
        window=Window(clock.unix(start), clock.unix(start + plan.ramp)),
        settled=clock.unix(quiet),
        ended=clock.unix(ended),
        offered=len(instants),
        late=quantiles_of(each.began - each.intended for each in connections.records),
        loop_lag=quantiles_of(heartbeat.lateness_between(start, start + plan.ramp)),
        cpu=cpu,
    )


async def summary_of_stage(plan: ConnectionPlan) -> ConnectionSummary:
    """Execute the plan, write client.jsonl, and return the summary."""
    clock = Clock()
    connections = Connections(plan, clock)
    try:
        opened = made_one_by_one if plan.sequential else made_on_schedule
        summary = await opened(plan, connections, clock)
    finally:
        await connections.end()
    encode = msgspec.json.Encoder().encode
    with Path(plan.client_log).open("wb") as log:
        log.writelines(encode(record) + b"\n" for record in connections.records)
    return summary


def main(arguments: list[str]) -> int:
    """Return the exit code: 2 for an invalid plan, 0 also if connections failed."""

    def run(plan: ConnectionPlan) -> None:
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        Path(plan.summary).write_bytes(msgspec.json.encode(asyncio.run(summary_of_stage(plan))))

    return exit_code("generator", ConnectionPlan, arguments, run)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
