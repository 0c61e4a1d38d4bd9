"""The app servers of a run, each on a socket that the lab bound for it."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sojourn_lab.errors import LabError
from sojourn_lab.resources import resource_file
from sojourn_lab.runtime.process import Process
from sojourn_lab.runtime.servers.probe import ready
from sojourn_lab.runtime.servers.start import Start
from sojourn_lab.runtime.servers.table import SERVERS, Protocol, why_server_unavailable
from sojourn_lab.scenario.topology import Topology

HOST = "127.0.0.1"
START_DEADLINE = 30.0


@dataclass(frozen=True)
class Backend:
    """A running app server.

    Attributes:
        name: of the backend.
        port: on the loopback; 0: it listens on a Unix socket.
        process: its first process.
        spans: where its spans go; None: it writes none.
        path: of its Unix socket; None: it listens on a port.
        protocol: the protocol of its port.
    """

    name: str
    port: int
    process: Process
    spans: Path | None
    path: Path | None = None
    protocol: Protocol = "proxy"

    @property
    def address(self) -> str:
        """The address as nginx logs it in upstream_addr: host and port, or `unix:` and a path."""
        return f"unix:{self.path}" if self.path is not None else f"{HOST}:{self.port}"

    def answers(self, timeout: float = 1.0) -> bool:
        """Return whether /ready is answered: by a one-worker server only once it is idle."""
        script = resource_file("backend", "app.php")
        return ready(self.path if self.path is not None else (HOST, self.port), self.protocol, script, timeout)

    def wait_until_ready(self, deadline: float = START_DEADLINE) -> None:
        """Wait until /ready is answered; LabError with the server's last output if it is not."""
        self.process.wait_until(self.answers, deadline, f"{self.name} to answer /ready")


def listening_socket(backlog: int, defer_accept: int | None = None) -> socket.socket:
    """Return a socket that listens on a free loopback port chosen by the kernel.

    The server inherits it, so no port is ever named before it is held: no two runs can race for one. With
    `defer_accept` (s) accept() gets a connection only when there is something to read (TCP_DEFER_ACCEPT, man 7 tcp).
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if defer_accept is not None:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, defer_accept)
    listener.bind((HOST, 0))
    listener.listen(backlog)
    return listener


def listening_unix_socket(path: Path, backlog: int) -> socket.socket:
    """Return a Unix socket that listens on a path; LabError for a path that is too long (man 7 unix) or taken."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(str(path))
    except OSError as error:
        listener.close()
        raise LabError(f"no Unix socket can be made at {path}: {error}") from None
    listener.listen(backlog)
    return listener


def started_backend(
    name: str,
    topology: Topology,
    folder: Path,
    environment: Mapping[str, str] | None = None,
    *,
    sockets: Path | None = None,
) -> Backend:
    """Return an app server, started but perhaps not ready yet; it logs into `folder`.

    `environment` has more variables for the app, such as `LAB_SLOWDOWN`, a factor on its service times. `sockets`:
    the folder for Unix sockets, whose path must be short; by default `folder`.
    """
    reason = why_server_unavailable(topology.server)
    if reason is not None:
        raise LabError(reason)
    kind = SERVERS[topology.server]
    spans = folder / f"{name}.spans.jsonl" if kind.spans else None
    path = (sockets or folder) / f"{name}.sock" if topology.unix else None
    opened = (
        listening_socket(topology.backlog, topology.defer_accept)
        if path is None
        else listening_unix_socket(path, topology.backlog)
    )
    with opened as listener:
        start = Start(name, topology, folder, listener, spans, environment or {})
        process = kind.make(start)
        process.start()
        # Leaving the block closes the lab's copy: were it kept, a dead backend would still accept.
        if path is not None:
            port = 0
        elif kind.own_port is None:
            port = listener.getsockname()[1]
        else:
            try:
                port = kind.own_port(start, process)
            except BaseException:
                process.stop()
                raise
    return Backend(name, port, process, spans, path, kind.protocol)
