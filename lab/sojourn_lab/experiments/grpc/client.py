"""`python -m sojourn_lab.experiments.grpc.client PLAN.json`: make the calls of one case over long-lived connections.

The schedule, the clock, the records and the verdict are those of the HTTP generator: calls leave at their instant,
whatever became of those before.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import grpc
import grpc.aio
import msgspec
import numpy as np

from sojourn_lab.errors import LabError
from sojourn_lab.experiments.grpc.plan import GrpcPlan, addresses_of_channels
from sojourn_lab.load.generator.__main__ import summary_of_run
from sojourn_lab.load.generator.client import UserRequest
from sojourn_lab.load.generator.clock import Clock
from sojourn_lab.load.generator.program import exit_code
from sojourn_lab.load.plan import ClientRecord, Plan

METHOD = "/lab.Lab/Sleep"
ANSWERED = 200
"""What nginx logs for a call that was answered; gRPC's own OK would be 0, which elsewhere means no answer."""

CONNECT_SECONDS = 10.0

OPTIONS = (
    # Channels to one address would otherwise share a connection.
    ("grpc.use_local_subchannel_pool", 1),
    # Loopback, whatever http_proxy in the environment says.
    ("grpc.enable_http_proxy", 0),
)


class Channels:
    """The connections of a case; each call uses a connection drawn for it."""

    def __init__(self, grpc_plan: GrpcPlan, clock: Clock, channels: list[grpc.aio.Channel]) -> None:
        self._plan = grpc_plan.plan
        self._clock = clock
        self._channels = channels
        # Bytes both ways: without serializers gRPC takes and gives them as they are.
        self._calls = [channel.unary_unary(METHOD) for channel in channels]

    async def outcome(self, request: UserRequest, intended: float, attempt: int = 1) -> ClientRecord:
        """Return the record of one call made now; failures are recorded, not raised."""
        unix = self._clock.unix
        rng = np.random.default_rng([*self._plan.seed, 1 << 33, request.number])
        number = int(rng.integers(len(self._calls)))
        sent = self._clock.now()
        record = ClientRecord(
            case=self._plan.case,
            id=f"{self._plan.case}-{request.number}",
            user=number,
            service_time=round(request.service_time, 6),
            intended=unix(intended),
            sent=unix(sent),
            route=METHOD,
            attempt=attempt,
        )
        metadata = (
            ("x-lab-case", self._plan.case),
            ("x-lab-id", record.id),
            # A proxy between puts its own in place of it.
            ("x-request-start", f"t={record.sent:.6f}"),
        )
        payload = f"{request.service_time:.6f}".encode()
        try:
            call = self._calls[number](payload, timeout=self._plan.timeout, metadata=metadata)
            headers = await call.initial_metadata()
            record.first_byte = unix(self._clock.now())
            await call
            record.status = ANSWERED
            record.request_id = next((str(value) for key, value in headers or () if key == "x-request-id"), None)
        except grpc.aio.AioRpcError as error:
            record.error = error.code().name.lower()
        record.done = unix(self._clock.now())
        return record

    async def close(self) -> None:
        """Close all connections."""
        await asyncio.gather(*(channel.close() for channel in self._channels))


async def connected(addresses: list[str]) -> list[grpc.aio.Channel]:
    """Return a connected channel to each address; LabError if one cannot connect within CONNECT_SECONDS."""
    channels = [grpc.aio.insecure_channel(address, options=OPTIONS) for address in addresses]
    try:
        await asyncio.wait_for(asyncio.gather(*(each.channel_ready() for each in channels)), CONNECT_SECONDS)
    except TimeoutError:
        raise LabError(f"not all of {', '.join(sorted(set(addresses)))} took a gRPC connection") from None
    return channels


async def _run(grpc_plan: GrpcPlan) -> None:
    channels = await connected(addresses_of_channels(grpc_plan))

    def asking(_: Plan, clock: Clock) -> Channels:
        return Channels(grpc_plan, clock, channels)

    summary = await summary_of_run(grpc_plan.plan, asking)
    Path(grpc_plan.plan.summary).write_bytes(msgspec.json.encode(summary))


def main(arguments: list[str]) -> int:
    """Return the exit code: 2 for a plan that cannot be used, 1 if no server answers, 0 also for a void run."""

    def run(grpc_plan: GrpcPlan) -> None:
        asyncio.run(_run(grpc_plan))

    return exit_code("grpc client", GrpcPlan, arguments, run)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
