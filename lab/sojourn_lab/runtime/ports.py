"""TCP ports: one that is free, and whether one answers."""

from __future__ import annotations

import contextlib
import socket
import time

from sojourn_lab.errors import LabError
from sojourn_lab.runtime.process import POLL_S, Process


def free_port(host: str = "127.0.0.1") -> int:
    """Return a TCP port without a listener at this moment; another process may bind it first, so be ready to retry."""
    return free_ports(1, host)[0]


def free_ports(count: int, host: str = "127.0.0.1") -> list[int]:
    """Return `count` different ports as of `free_port`: repeated calls of it may return the same."""
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) for _ in range(count)]
        for probe in probes:
            probe.bind((host, 0))
        return [probe.getsockname()[1] for probe in probes]


def port_answers(host: str, port: int, timeout_s: float = 0.5) -> bool:
    """Return whether a TCP connection to the port is accepted (by the kernel: the program may still be busy)."""
    try:
        with socket.create_connection((host, port), timeout=timeout_s):
            return True
    except OSError:
        return False


def wait_for_port(host: str, port: int, deadline_s: float, process: Process | None = None) -> None:
    """Wait until the port accepts a connection; LabError after `deadline_s` seconds, or when `process` exits."""
    what = f"{host}:{port} to accept connections"
    if process is not None:
        process.wait_until(lambda: port_answers(host, port), deadline_s, what)
        return
    deadline = time.monotonic() + deadline_s
    while not port_answers(host, port):
        if time.monotonic() > deadline:
            raise LabError(f"waited {deadline_s:g} s for {what}")
        time.sleep(POLL_S)
