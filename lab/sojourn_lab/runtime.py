"""The process runtime: nginx, the app servers and the sampler of one run, up and always down again."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Literal, Protocol, Self

from sojourn_lab.backends import Backend, started_backend
from sojourn_lab.interrupts import Interrupts
from sojourn_lab.listen import ListenSampler
from sojourn_lab.nginx import Nginx
from sojourn_lab.process import Process
from sojourn_lab.proxy import Upstreams, http_text, server_text
from sojourn_lab.scenario import Action
from sojourn_lab.topology import Pool, Topology, changed


class Runtime(Protocol):
    """Where the parts of a run run: a context, ready when entered, gone when left.

    `url`: where the proxy answers. `backends`: all app servers, those behind the app too. Seconds: `spin_up`,
    `tear_down`.
    """

    kind: Literal["process", "compose"]
    backends: list[Backend]
    spin_up: float
    tear_down: float

    @property
    def url(self) -> str:
        """Where the proxy answers; empty before it is up."""

    def settle(self, deadline: float) -> None:
        """Return when every backend answers again, so that no case inherits the work of the one before."""

    def started(self, command: list[str], name: str) -> Process:
        """Return a process of this run, started; it is stopped with the rest if it has not ended by then."""

    def perform(self, action: Action) -> None:
        """Do it, now; returns when nginx works by it. LabError where it cannot be done."""

    def __enter__(self) -> Self:
        """Start everything."""

    def __exit__(self, *_: object) -> None:
        """Stop everything."""


class RuntimeMaker(Protocol):
    """What makes a runtime for a topology; see `ProcessRuntime` for the arguments."""

    def __call__(
        self, topology: Topology, folder: Path, logs: Path, interrupts: Interrupts, *, nginx_in: Path | None = None
    ) -> Runtime:
        """Return it, not entered yet."""


def process_runtime(
    topology: Topology, folder: Path, logs: Path, interrupts: Interrupts, *, nginx_in: Path | None = None
) -> Runtime:
    """Return a runtime in which the parts are processes of this machine."""
    return ProcessRuntime(topology, folder, logs, interrupts, nginx_in=nginx_in)


def runtime_maker(name: Literal["process", "compose"]) -> RuntimeMaker:
    """Return what makes a runtime of that name."""
    if name == "process":
        return process_runtime
    from sojourn_lab.compose import compose_runtime  # noqa: PLC0415 - only where it is asked for

    return compose_runtime


class ProcessRuntime:
    """A context in which the topology runs: ready when entered, gone when left, whatever happened inside.

    `spin_up` and `tear_down` are seconds. The folder gets nginx/ (unless `nginx_in` says where else), access.jsonl,
    listen.jsonl, both after what is in them already, and logs/.
    """

    kind: Literal["process", "compose"] = "process"

    def __init__(
        self, topology: Topology, folder: Path, logs: Path, interrupts: Interrupts, *, nginx_in: Path | None = None
    ) -> None:
        self._topology = topology
        self._nginx_in = nginx_in or folder
        self._logs = logs
        logs.mkdir(exist_ok=True)
        self._interrupts = interrupts
        self._stack = contextlib.ExitStack()
        self.access_log = folder / "access.jsonl"
        self.listen_log = folder / "listen.jsonl"
        self.backends: list[Backend] = []
        """All that were started, in the order of their start."""
        self.upstreams = Upstreams()
        self.nginx: Nginx | None = None
        self.spin_up = 0.0
        self.tear_down = 0.0

    @property
    def url(self) -> str:
        """Where the proxy answers; empty before it is up."""
        return self.nginx.url if self.nginx is not None else ""

    def __enter__(self) -> Self:
        before = time.monotonic()
        try:
            self._start_all()
        except BaseException:
            self._stop_all()
            raise
        self.spin_up = time.monotonic() - before
        return self

    def _start_all(self) -> None:
        topology = self._topology
        factors = [*topology.slowdown, *[1.0] * (topology.backends + topology.standby)]
        own = [self._started(f"backend-{n + 1}", topology, factors[n]) for n in range(topology.backends)]
        standby = [
            self._started(f"backend-{n + 1}", topology, factors[n])
            for n in range(topology.backends, topology.backends + topology.standby)
        ]
        pools = {pool.name: self._started_pool(pool) for pool in topology.pools}
        for backend in self.backends:
            backend.wait_until_ready()
        self.upstreams = Upstreams(
            own=[each.address for each in own],
            standby=[each.address for each in standby],
            pools={name: [each.address for each in members] for name, members in pools.items()},
        )
        with self._interrupts.shielded():
            nginx = Nginx(
                self._nginx_in,
                server_text(topology, self.upstreams),
                access_log=self.access_log,
                http=http_text(topology, self.upstreams),
                workers=topology.nginx_workers,
            )
            nginx.start()
            self._stack.callback(nginx.stop)
            self.nginx = nginx
        ports = {"nginx": nginx.port, **{backend.name: backend.port for backend in self.backends}}
        self._stack.enter_context(ListenSampler(self.listen_log, ports, keep=True))

    def _started(self, name: str, topology: Topology, slowdown: float = 1.0) -> Backend:
        with self._interrupts.shielded():
            environment = {"LAB_SLOWDOWN": repr(slowdown)} if slowdown != 1.0 else {}
            backend = started_backend(name, topology, self._logs, environment)
            self._stack.callback(backend.process.stop)
            self.backends.append(backend)
        return backend

    def _started_pool(self, pool: Pool) -> list[Backend]:
        own = changed(self._topology, workers=pool.workers)
        return [self._started(f"{pool.name}-{n + 1}", own) for n in range(pool.backends)]

    def perform(self, action: Action) -> None:
        """Do it, now; returns when nginx works by it. LabError where it cannot be done."""
        self.upstreams = self.upstreams.after(action)
        if self.nginx is not None:
            self.nginx.reconfigure(
                server_text(self._topology, self.upstreams), http_text(self._topology, self.upstreams)
            )

    def settle(self, deadline: float) -> None:
        """Return when every backend answers again, so that no case inherits the work of the one before."""
        for backend in self.backends:
            backend.wait_until_ready(deadline)

    def started(self, command: list[str], name: str) -> Process:
        """Return a process of this run, started; it is stopped with the rest if it has not ended by then."""
        with self._interrupts.shielded():
            process = Process(command, name=name, folder=self._logs)
            process.start()
            self._stack.callback(process.stop)
        return process

    def __exit__(self, *_: object) -> None:
        self._stop_all()

    def _stop_all(self) -> None:
        before = time.monotonic()
        with self._interrupts.shielded():
            self._stack.close()
        self.tear_down = time.monotonic() - before
