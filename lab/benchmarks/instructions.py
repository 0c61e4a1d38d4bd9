"""Instructions of a proxy per request, counted by valgrind: other load on the machine does not change them.

Valgrind counts the instructions of the process, not those of the kernel on its behalf.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import socket
import subprocess
from pathlib import Path

from sojourn_lab.errors import LabError
from sojourn_lab.runtime.ports import free_ports

from benchmarks.proxy_load import HOST, PATH, Setup, proxy_config, started, upstream_config

CONNECTIONS = 8
ROUNDS_BEFORE = 30
"""Requests on each connection before counting: caches of nginx and of the allocator are filled."""
_START_S = 60.0
_CONTROL = "callgrind_control"


def why_not() -> str | None:
    """Return what the count lacks on this machine; None if it can run."""
    missing = [name for name in ("valgrind", _CONTROL) if shutil.which(name) is None]
    return f"instructions per request: {' and '.join(missing)} not installed" if missing else None


def instructions(folder: Path, setup: Setup, requests: int) -> float:
    """Return the instructions of one proxy per request.

    Args:
        folder: an empty folder, for its files.
        setup: the settings of the proxy.
        requests: number of requests, rounded up to a multiple of ``CONNECTIONS``.

    Raises:
        SystemExit: the proxy did not start, or valgrind wrote no count.
    """
    upstream, port = free_ports(2)
    rounds = -(-requests // CONNECTIONS)
    with contextlib.ExitStack() as stack:
        try:
            started(folder / "upstream", upstream_config(folder / "upstream", upstream), upstream, stack)
            text = proxy_config(folder / "proxy", setup, port, upstream, one_process=True)
            valgrind = ("valgrind", "--quiet", "--tool=callgrind", f"--callgrind-out-file={folder}/counted")
            process = started(folder / "proxy", text, port, stack, before=valgrind, deadline_s=_START_S)
        except LabError as error:
            raise SystemExit(f"bench: {error}") from None
        _send(port, ROUNDS_BEFORE)
        _control("--zero", process.pid)
        _send(port, rounds)
        _control("--dump", process.pid)
        counts = [counted(path.read_text()) for path in sorted(folder.glob("counted.*"))]
    if not counts:
        raise SystemExit("bench: valgrind wrote no count of instructions")
    return counts[0] / (rounds * CONNECTIONS)


def counted(text: str) -> int:
    """Return the instructions of a file of callgrind, by its line ``totals:`` or ``summary:``."""
    match = re.search(r"^(?:totals|summary): (\d+)", text, re.MULTILINE)
    if match is None:
        raise SystemExit("bench: callgrind's file has no line totals or summary")
    return int(match[1])


def _control(command: str, pid: int) -> None:
    subprocess.run([_CONTROL, command, str(pid)], capture_output=True, timeout=_START_S, check=True)


def _send(port: int, rounds: int) -> None:
    """Send one request on each of the connections at a time, and read the answers."""
    request = f"GET {PATH} HTTP/1.1\r\nHost: {HOST}:{port}\r\n\r\n".encode()
    with contextlib.ExitStack() as stack:
        connections = [
            stack.enter_context(socket.create_connection((HOST, port), timeout=_START_S)) for _ in range(CONNECTIONS)
        ]
        for _ in range(rounds):
            for connection in connections:
                connection.sendall(request)
            for connection in connections:
                answer = b""
                while not answer.endswith(b"ok\n"):
                    part = connection.recv(65536)
                    if not part or (answer and not answer.startswith(b"HTTP/1.1 200 ")):
                        raise SystemExit(f"bench: the proxy answered {answer[:80]!r}")
                    answer += part
