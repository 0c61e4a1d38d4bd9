"""`python -m sojourn_lab.load.generator PLAN.json`: run one case, and write client.jsonl and a summary."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from sojourn_lab.load.generator.client import Asks, Client
from sojourn_lab.load.generator.clock import HEAD_START, Clock, Heartbeat
from sojourn_lab.load.generator.loops import offer_closed, offer_open
from sojourn_lab.load.generator.program import announce, exit_code
from sojourn_lab.load.generator.summary import summary_of
from sojourn_lab.load.plan import ClientRecord, Plan, Summary, Window
from sojourn_lab.scenario.load import ClosedLoad


async def summary_of_run(plan: Plan, asking: Callable[[Plan, Clock], Asks] = Client) -> Summary:
    """Offer the plan's load, write client.jsonl line by line, and return the summary; `asking` creates the client."""
    clock = Clock()
    client = asking(plan, clock)
    encode = msgspec.json.Encoder().encode
    records: list[ClientRecord] = []
    try:
        async with Heartbeat(clock) as heartbeat:
            start = clock.now() + HEAD_START
            since, until = start + plan.warmup, start + plan.warmup + plan.duration
            announce(plan, clock.unix(since))
            offer = offer_closed if isinstance(plan.load, ClosedLoad) else offer_open
            cpu_before = time.process_time()
            with Path(plan.client_log).open("wb") as log:

                def write(record: ClientRecord) -> None:
                    records.append(record)
                    log.write(encode(record) + b"\n")

                dropped = await offer(plan, client, clock, start, write)
                cpu = (time.process_time() - cpu_before) / (clock.now() - start)
    finally:
        await client.close()
    return summary_of(
        plan,
        Window(clock.unix(since), clock.unix(until)),
        records=records,
        dropped=[clock.unix(instant) for instant in dropped],
        loop_lag=heartbeat.lateness_between(since, until),
        cpu=cpu,
    )


def main(arguments: list[str]) -> int:
    """Return the exit code: 2 for an invalid plan, 1 if nothing can be sent, 0 also for a void run."""

    def run(plan: Plan) -> None:
        Path(plan.summary).write_bytes(msgspec.json.encode(asyncio.run(summary_of_run(plan))))

    return exit_code("generator", Plan, arguments, run)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
