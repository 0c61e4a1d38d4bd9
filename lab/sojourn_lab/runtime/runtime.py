"""The process runtime: nginx, the app servers and the sampler of one run as processes of this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, Protocol, Self

from sojourn_lab.errors import LabError
from sojourn_lab.measure.listen import ListenSampler
from sojourn_lab.runtime.backends import HOST, Backend, started_backend
from sojourn_lab.runtime.compose import ComposeRuntime
from sojourn_lab.runtime.half_open import HalfOpen
from sojourn_lab.runtime.interrupts import Interrupts
from sojourn_lab.runtime.lifecycle import Lifecycle
from sojourn_lab.runtime.namespace import network_namespace, own_namespace
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.runtime.process import Process
from sojourn_lab.runtime.proxy import PLAIN_LOG_NAME, Upstreams, http_text, server_text
from sojourn_lab.runtime.tier import Tier, dependency_tier, mirror_tier, service_names
from sojourn_lab.scenario.case import Action
from sojourn_lab.scenario.topology import Topology, changed
from sojourn_lab.scenario.topology_parts import Pool

WORKER_LOG_NAME = "workers.jsonl"


class AppServer(Protocol):
    """An app server of a runtime."""

    @property
    def name(self) -> str:
        """Its name in spans: `backend-1`."""

    @property
    def spans(self) -> Path | None:
        """The file of its spans; None: it writes none."""


class Runtime(Protocol):
    """The servers of a run: a context, ready when entered, stopped when left.

    `url`: where the proxy answers. Seconds: `spin_up`, `tear_down`. `versions`: of what does not run on this machine
    itself, for the run's record.
    """

    spin_up: float
    tear_down: float
    versions: dict[str, str]

    @property
    def kind(self) -> Literal["process", "compose", "external"]:
        """Processes of this machine, containers, or a URL of servers that the lab does not control."""

    @property
    def backends(self) -> Sequence[AppServer]:
        """All app servers, including those behind the app, in the order of their start."""

    @property
    def url(self) -> str:
        """The URL of the proxy; empty before it runs."""

    def settle(self, deadline: float) -> None:
        """Return when every backend answers again, so that no case inherits work of the previous one."""

    def started(self, command: list[str], name: str) -> Process:
        """Return a started process of this run; it is stopped with the rest."""

    def perform(self, action: Action) -> None:
        """Perform the action; return when nginx uses it. LabError if it is not possible."""

    def __enter__(self) -> Self:
        """Start everything."""

    def __exit__(self, *_: object) -> None:
        """Stop everything."""


class RuntimeMaker(Protocol):
    """A factory of runtimes for a topology; see `ProcessRuntime` for the arguments."""

    def __call__(
        self, topology: Topology, folder: Path, logs: Path, interrupts: Interrupts, *, nginx_in: Path | None = None
    ) -> Runtime:
        """Return the runtime, not entered yet."""


class ProcessRuntime(Lifecycle):
    """A context in which the topology runs as processes of this machine.

    The folder gets nginx/ (unless `nginx_in` says where else), access.jsonl,
    listen.jsonl, both after what is in them already, and logs/.
    """

    kind: Literal["process", "compose"] = "process"

    def __init__(
        self, topology: Topology, folder: Path, logs: Path, interrupts: Interrupts, *, nginx_in: Path | None = None
    ) -> None:
        super().__init__(logs, interrupts)
        self._topology = topology
        self._nginx_in = nginx_in or folder
        self.access_log = folder / "access.jsonl"
        self.listen_log = folder / "listen.jsonl"
        self.backends: list[Backend] = []
        """All that were started, in the order of their start."""
        self.upstreams = Upstreams()
        self.nginx: Nginx | None = None
        self.listen: ListenSampler | None = None
        self._half_open: HalfOpen | None = None
        self._sockets: Path | None = None
        self.versions: dict[str, str] = {}

    @property
    def url(self) -> str:
        """The URL of the proxy; empty before it runs."""
        return self.nginx.url if self.nginx is not None else ""

    def _start_all(self) -> None:
        topology = self._topology
        if topology.unix:
            # Apart from the run's folder, whose path may be longer than that of a socket can be.
            self._sockets = Path(self._stack.enter_context(TemporaryDirectory(prefix="lab-")))
        if topology.namespace is not None:
            # First, so that everything is started inside, and it is left when everything is down.
            outside = own_namespace()
            self._stack.enter_context(network_namespace(topology.namespace.sysctls))
            self._half_open = HalfOpen(outside)
        # What is behind is there before those who ask it, and goes after them.
        behind: dict[str, str] = {}
        dark: str | None = None
        folder = self.access_log.parent
        if topology.dependency is not None:
            tier = dependency_tier(topology.dependency, topology, folder, self._logs, self._started)
            behind = {"LAB_DEPENDENCY": self._fronted(tier)}
        if topology.mirror is not None:
            tier = mirror_tier(topology.mirror, topology, folder, self._logs, self._started)
            dark = self._fronted(tier).removeprefix("http://")
        beside = {"LAB_ANSWERS": "1"} if dark is not None else {}
        if topology.worker_log:
            beside["LAB_WORKER_LOG"] = str(self.access_log.with_name(WORKER_LOG_NAME))
        if topology.loading:
            beside["LAB_LOADING"] = repr(topology.loading)
        factors = [*topology.slowdown, *[1.0] * (topology.backends + topology.standby)]
        names = [f"backend-{n + 1}" for n in range(topology.backends + topology.standby)]
        every = [
            self._started(name, topology, {"LAB_SLOWDOWN": repr(factor), **beside, **self._asks(behind, name)})
            for name, factor in zip(names, factors, strict=False)
        ]
        own, standby = every[: topology.backends], every[topology.backends :]
        pools = {pool.name: self._started_pool(pool) for pool in topology.pools}
        for backend in self.backends:
            backend.wait_until_started()
        # After nginx, and all at once: gunicorn needs half a second for it.
        for backend in (*every, *(member for members in pools.values() for member in members)):
            for process in backend.processes:
                self._stack.callback(process.begin_stop)
        self.upstreams = Upstreams(
            own=[each.address for each in own],
            standby=[each.address for each in standby],
            pools={name: [each.address for each in members] for name, members in pools.items()},
            mirror=dark,
            answers=None if dark is None else str(self.access_log.with_name("answers.jsonl")),
            plain=str(self.access_log.with_name(PLAIN_LOG_NAME)) if topology.plain_log else None,
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
        ports = {"nginx": nginx.port, **{each.name: each.port for each in self.backends if each.port}}
        self.listen = self._stack.enter_context(ListenSampler(self.listen_log, ports, keep=True))

    def _started(self, name: str, topology: Topology, environment: Mapping[str, str] | None = None) -> Backend:
        with self._interrupts.shielded():
            backend = started_backend(name, topology, self._logs, environment, sockets=self._sockets)
            for process in reversed(backend.processes):
                self._stack.callback(process.stop)
            self.backends.append(backend)
        return backend

    def _fronted(self, tier: Tier) -> str:
        """Start a tier's nginx, and return its address."""
        with self._interrupts.shielded():
            tier.nginx.start()
            self._stack.callback(tier.nginx.stop)
        return tier.nginx.url

    @staticmethod
    def _asks(behind: Mapping[str, str], instance: str) -> dict[str, str]:
        # All instances of the app are one service in traces through the tiers.
        return {**behind, **service_names("app", instance)} if behind else {}

    def _started_pool(self, pool: Pool) -> list[Backend]:
        own = changed(self._topology, workers=pool.workers)
        return [self._started(f"{pool.name}-{n + 1}", own) for n in range(pool.backends)]

    def perform(self, action: Action) -> None:
        """Perform the action; return when nginx uses it. LabError if it is not possible."""
        if action.do == "half_open":
            self._begin_half_open(action.count or 0)
            return
        self.upstreams = self.upstreams.after(action)
        if self.nginx is not None:
            self._reconfigure(self.nginx)

    def _reconfigure(self, nginx: Nginx) -> None:
        nginx.reconfigure(server_text(self._topology, self.upstreams), http_text(self._topology, self.upstreams))

    def _begin_half_open(self, count: int) -> None:
        if self._half_open is None:
            raise LabError("half-open connections need a `namespace` in the scenario's topology")
        for backend in self.backends:
            self._half_open.begin(HOST, backend.port, count)

    def settle(self, deadline: float) -> None:
        """Return when every backend answers again, so that no case inherits the work of the one before.

        LabError where nginx or a backend is gone: since when is then unknown.
        """
        if self.nginx is not None and (code := self.nginx.process.exit_code()) is not None:
            raise LabError(f"nginx ended ({code}) while it was under load")
        if self.nginx is not None and self._topology.keepalive is not None:
            # An idle connection that nginx keeps may hold a worker, which then accepts no other; a reload closes it.
            self._reconfigure(self.nginx)
        for backend in self.backends:
            backend.wait_until_ready(deadline)


RUNTIMES: dict[Literal["process", "compose"], RuntimeMaker] = {"process": ProcessRuntime, "compose": ComposeRuntime}
"""The factories of `--runtime`."""
