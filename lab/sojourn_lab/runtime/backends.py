"""The app servers of a run, each on a socket that the lab bound for it."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from sojourn_lab.errors import LabError
from sojourn_lab.resources import resource_file
from sojourn_lab.runtime.limit import BACKLOG, Limit, started_limit, why_limit_unavailable
from sojourn_lab.runtime.process import Process
from sojourn_lab.runtime.servers.own_app import Readiness
from sojourn_lab.runtime.servers.probe import Protocol, ready
from sojourn_lab.runtime.servers.python import LOADED
from sojourn_lab.runtime.servers.start import Start
from sojourn_lab.runtime.servers.table import kind_of, why_unavailable
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
        others: further masters that listen on its port.
        limit: the proxy in front of it; None: there is none.
        own: when the user's own app is ready; None: it is the lab's app, which answers /ready.
    """

    name: str
    port: int
    process: Process
    spans: Path | None
    path: Path | None = None
    protocol: Protocol = "proxy"
    others: Sequence[Process] = ()
    limit: Limit | None = None
    own: Readiness | None = None

    @property
    def address(self) -> str:
        """The address as nginx logs it in upstream_addr: host and port, or `unix:` and a path."""
        if self.limit is not None:
            return self.limit.address
        return f"unix:{self.path}" if self.path is not None else f"{HOST}:{self.port}"

    @property
    def processes(self) -> list[Process]:
        """All that was started for it; those that are to end first come first."""
        return [*([self.limit.process] if self.limit is not None else []), self.process, *self.others]

    def answers(self, timeout: float = 1.0) -> bool:
        """Return whether /ready is answered: by a one-worker server only once it is idle."""
        script = resource_file("backend", "app.php")
        return ready(self.path if self.path is not None else (HOST, self.port), self.protocol, script, timeout)

    def wait_until_started(self) -> None:
        """Wait until the started server is ready; LabError with the last output if it is not in time."""
        if self.own is not None:
            self.own.await_start(self.process)
        else:
            self.wait_until_ready(START_DEADLINE)

    def wait_until_ready(self, deadline: float = START_DEADLINE) -> None:
        """Wait until /ready is answered, and by each of several masters; LabError with the last output if it is not.

        The user's own app answers the path that says it is ready, or `/`.
        """
        if self.own is not None:
            self.own.await_idle(self.process, deadline)
            return
        for process in (self.process, *self.others) if self.others else ():
            process.wait_until(partial(_loaded, process), deadline, f"the workers of {process.name} to load the app")
        self.process.wait_until(self.answers, deadline, f"{self.name} to answer /ready")


def _loaded(process: Process) -> bool:
    return LOADED in process.err_path.read_text()


def listening_socket(
    backlog: int, defer_accept: int | None = None, *, shared: bool = False, port: int = 0
) -> socket.socket:
    """Return a socket that listens on a free loopback port chosen by the kernel, or on the `port` of a `shared` one.

    The server inherits it, so no port is ever named before it is held: no two runs can race for one. With
    `defer_accept` (s) accept() gets a connection only when there is something to read (TCP_DEFER_ACCEPT, man 7 tcp).
    Several `shared` sockets may listen on one port; each has a queue of its own (SO_REUSEPORT).
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if defer_accept is not None:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, defer_accept)
    if shared:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listener.bind((HOST, port))
    listener.listen(backlog)
    return listener


def reserved_address(path: Path | None) -> socket.socket:
    """Return a socket bound to a free loopback port, or to a path, that does not listen.

    It is closed just before a server binds the address itself.
    """
    if path is not None:
        reserved = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            reserved.bind(str(path))
        except OSError as error:
            reserved.close()
            raise LabError(f"no Unix socket can be made at {path}: {error}") from None
        path.unlink()
        return reserved
    reserved = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind((HOST, 0))
    return reserved


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
    reason = why_unavailable(topology)
    if reason is None and topology.limit is not None:
        reason = why_limit_unavailable()
    if reason is not None:
        raise LabError(reason)
    kind = kind_of(topology)
    spans = folder / f"{name}.spans.jsonl" if kind.spans and not topology.worker_log else None
    path = (sockets or folder) / f"{name}.sock" if topology.unix else None
    shared = topology.masters > 1
    if kind.binds:
        opened = reserved_address(path)
    elif path is None:
        opened = listening_socket(topology.backlog, topology.defer_accept, shared=shared)
    else:
        opened = listening_unix_socket(path, topology.backlog)
    with ExitStack() as stack:
        # Leaving the block closes the lab's copy: were it kept, a dead backend would still accept.
        with opened as listener:
            start = Start(name, topology, folder, listener, spans, environment or {})
            process = kind.make(start)
            port = 0 if path is not None else listener.getsockname()[1]
            if kind.binds:
                listener.close()
            process.start()
            stack.callback(process.stop)
            if kind.own_port is not None:
                port = kind.own_port(start, process)
            others = []
            for number in range(1, topology.masters):
                with listening_socket(topology.backlog, topology.defer_accept, shared=True, port=port) as own:
                    others.append(kind.make(replace(start, name=f"{name}-{number + 1}", listener=own)).start())
                    stack.callback(others[-1].stop)
        limit = None
        if topology.limit is not None:
            with listening_socket(BACKLOG) as entry:
                limit = started_limit(name, topology.limit, f"{HOST}:{port}", folder, entry)
        stack.pop_all()
    readiness = None
    if topology.command is not None:
        readiness = Readiness(path or (HOST, port), topology.ready, topology.ready_within)
    return Backend(name, port, process, spans, path, kind.protocol, others, limit, readiness)
