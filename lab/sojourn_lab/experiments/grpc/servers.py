"""The gRPC servers of a case, and their logs."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import msgspec

from sojourn_lab.resources import resource_file
from sojourn_lab.runtime.process import Process

HOST = "127.0.0.1"
START_DEADLINE = 30.0


class Call(msgspec.Struct, frozen=True):
    """One call in its server's log: the client's id, and when a worker took it and was free again, unix s."""

    id: str | None
    worker: str
    start: float
    end: float


class _Ready(msgspec.Struct):
    port: int


@dataclass(frozen=True)
class GrpcServer:
    """A running gRPC server, and its log with a line per call."""

    name: str
    process: Process
    log: Path

    def port(self) -> int | None:
        """Return the port it listens on; None before it does."""
        line = self.process.out_path.read_bytes().partition(b"\n")
        return msgspec.json.decode(line[0], type=_Ready).port if line[1] else None

    def ready_address(self) -> str:
        """Return host and port once it answers; LabError with its last output if it does not."""
        self.process.wait_until(lambda: self.port() is not None, START_DEADLINE, f"{self.name} to serve gRPC")
        return f"{HOST}:{self.port()}"

    def calls(self) -> list[Call]:
        """Return its logged calls so far, in the order in which they ended."""
        return msgspec.json.Decoder(Call).decode_lines(self.log.read_bytes()) if self.log.exists() else []


def started_server(name: str, workers: int, slowdown: float, folder: Path) -> GrpcServer:
    """Return a started server, perhaps not ready yet; it logs into `folder`. `slowdown` scales service times."""
    log = folder / f"{name}.calls.jsonl"
    command = [
        sys.executable,
        str(resource_file("backend", "grpc_server.py")),
        *("--workers", str(workers)),
        *("--log", str(log)),
    ]
    # Nothing that steers gRPC from outside may change what a scenario says.
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("GRPC_", "OTEL_"))}
    environment |= {"LAB_SLOWDOWN": repr(slowdown), "PYTHONDONTWRITEBYTECODE": "1"}
    process = Process(command, name=name, folder=folder, env=environment)
    process.start()
    return GrpcServer(name, process, log)
