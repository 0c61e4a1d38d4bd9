"""The lab's app as a gRPC service: it holds a worker for the time in the request, so that the service time is known.

    python grpc_server.py --workers 1 --log calls.jsonl

Method `/lab.Lab/Sleep`: the request is a number of seconds in ASCII; the answer is empty. There are no generated
classes: requests and answers are bytes. Without a number in the request the call fails with INVALID_ARGUMENT.

Workers are the threads of the server's pool. A call without a free worker waits inside the server, first in, first out:
that is the queue. It begins when the call has arrived and ends when a thread takes it. Its wait is answered in
the headers, as the HTTP app does, by the stamp in `x-request-start`; and every call is a line of the log:

    {"id": x-lab-id, "case": x-lab-case, "worker": "0", "start": unix s, "end": unix s}

The port is chosen by the kernel and printed, `{"port": n}`, once the server answers. With LAB_SLOWDOWN every sleep
takes that many times as long: a slower machine.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
from sojourn_middleware import StampReader

SERVICE = "lab.Lab"
METHOD = "Sleep"
LONGEST = 86_400.0
GRACE = 5.0
SLOWDOWN = float(os.environ.get("LAB_SLOWDOWN", "1"))


class Sleeper:
    """Answers calls and writes a line for each; used by all worker threads."""

    def __init__(self, log: Path | None) -> None:
        self._log = log.open("ab", buffering=0) if log is not None else None
        self._stamps = StampReader()

    def sleep(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        """Sleep for the time in the request, then answer; the headers leave at the end of the work."""
        start, began = time.time(), time.monotonic()
        metadata = {str(key): _text(value) for key, value in context.invocation_metadata()}
        seconds = _seconds(request)
        if seconds is None:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"not a number of seconds from 0 to {LONGEST:g}")
        else:
            time.sleep(seconds * SLOWDOWN)
        service = time.monotonic() - began
        worker = threading.current_thread().name.rpartition("_")[2]
        stamp = self._stamps.read([[metadata.get("x-request-start", "")]], int(start * 1e6)).start_us
        headers = [("x-service-time", f"{service:.6f}"), ("x-worker", worker), ("x-route", f"/{SERVICE}/{METHOD}")]
        if stamp is not None:
            headers.append(("x-queueing-delay", f"{start - stamp / 1e6:.6f}"))
        context.send_initial_metadata(tuple(headers))
        if self._log is not None:
            line = {"id": metadata.get("x-lab-id"), "case": metadata.get("x-lab-case"), "worker": worker}
            # One write, without a buffer: lines of several threads do not mix.
            self._log.write(json.dumps({**line, "start": start, "end": start + service}).encode() + b"\n")
        return b""


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _seconds(request: bytes) -> float | None:
    try:
        value = float(request)
    except ValueError:
        return None
    return value if math.isfinite(value) and 0.0 <= value <= LONGEST else None


def server_of(workers: int, log: Path | None) -> tuple[grpc.Server, int]:
    """Return a server, not started yet, and its port on the loopback."""
    sleeper = Sleeper(log)
    handler = grpc.method_handlers_generic_handler(
        SERVICE, {METHOD: grpc.unary_unary_rpc_method_handler(sleeper.sleep)}
    )
    # Two servers must never share a port: gRPC would allow it by SO_REUSEPORT.
    server = grpc.server(ThreadPoolExecutor(workers), handlers=[handler], options=[("grpc.so_reuseport", 0)])
    return server, server.add_insecure_port("127.0.0.1:0")


def main(arguments: list[str]) -> int:
    """Serve until SIGTERM or SIGINT; calls in progress may take GRACE seconds to end."""
    parser = argparse.ArgumentParser(description="The lab's app as a gRPC service.")
    parser.add_argument("--workers", type=int, default=1, help="threads that serve calls")
    parser.add_argument("--log", type=Path, help="file that gets a line of JSON for each call")
    options = parser.parse_args(arguments)
    server, port = server_of(options.workers, options.log)
    stopped = threading.Event()
    for which in (signal.SIGTERM, signal.SIGINT):
        signal.signal(which, lambda *_: stopped.set())
    server.start()
    sys.stdout.write(json.dumps({"port": port}) + "\n")
    sys.stdout.flush()
    stopped.wait()
    server.stop(GRACE).wait()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
