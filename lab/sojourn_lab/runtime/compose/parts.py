"""The containers of a topology: app servers, and an nginx in front of each tier of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sojourn_lab.runtime.proxy import Upstreams
from sojourn_lab.runtime.tier import copy_settings, dependency_settings, plain, service_names
from sojourn_lab.scenario.topology import Topology, changed
from sojourn_lab.scenario.topology_parts import Dependency, Mirror

APP_PORT, HTTP_PORT, CONTROL_PORT = 8000, 8080, 8081
LOGS = "/lab/log"
SPANS = "/lab/spans"
MAIN, DEPENDENCY, DARK = "nginx", "nginx-dependency", "nginx-dark"

DARK_UPSTREAM = "lab_dark_front"
"""Name of the mirror's upstream: a proxy_pass with variables needs the name of an upstream."""


@dataclass(frozen=True)
class AppService:
    """One app server in a container: the name of its service, its topology, and more variables for the app."""

    name: str
    topology: Topology
    more: Mapping[str, str] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """Host and port, as the project's name service resolves it."""
        return f"{self.name}:{APP_PORT}"


@dataclass(frozen=True)
class Front:
    """An nginx in a container.

    Attributes:
        name: name of its service.
        topology: of its configuration.
        upstreams: the servers behind it.
        log: name of its access log.
        answers: name of its log of responses; None: it has none.
    """

    name: str
    topology: Topology
    upstreams: Upstreams
    log: str
    answers: str | None = None


@dataclass(frozen=True)
class Parts:
    """All services: the public nginx, those of other tiers, and the app servers of all tiers."""

    main: Front
    behind: list[Front]
    apps: list[AppService]

    @property
    def fronts(self) -> list[Front]:
        """Every nginx, the public one first."""
        return [self.main, *self.behind]

    @property
    def ports(self) -> dict[str, int]:
        """The ports of each nginx and each app server, by service."""
        return {**{each.name: HTTP_PORT for each in self.fronts}, **{each.name: APP_PORT for each in self.apps}}

    @property
    def logs(self) -> list[str]:
        """The names of all logs of the nginxes, including those of responses."""
        return [name for each in self.fronts for name in (each.log, each.answers) if name is not None]


def parts_of(topology: Topology) -> Parts:
    """Return the containers of a topology."""
    behind: list[Front] = []
    others: list[AppService] = []
    asks: dict[str, str] = {}
    beside: dict[str, str] = {}
    if topology.dependency is not None:
        front, servers = dependency_tier(topology, topology.dependency)
        behind, others = [*behind, front], [*others, *servers]
        asks = {"LAB_DEPENDENCY": f"http://{front.name}:{HTTP_PORT}"}
    if topology.mirror is not None:
        front, servers = dark_tier(topology, topology.mirror)
        behind, others = [*behind, front], [*others, *servers]
        beside = {"LAB_ANSWERS": "1"}

    def app_service(name: str, own: Topology, slowdown: float = 1.0) -> AppService:
        # All instances of the app are one service in traces through the tiers.
        service = service_names("app", name) if asks else {}
        slower = {"LAB_SLOWDOWN": repr(slowdown)} if slowdown != 1.0 else {}
        return AppService(name, own, {**slower, **beside, **asks, **service})

    count = topology.backends + topology.standby
    factors = [*topology.slowdown, *[1.0] * count]
    own = [app_service(f"backend-{n + 1}", topology, factors[n]) for n in range(count)]
    pools = {
        pool.name: [
            app_service(f"{pool.name}-{n + 1}", changed(topology, workers=pool.workers)) for n in range(pool.backends)
        ]
        for pool in topology.pools
    }
    addresses = [app.address for app in own]
    upstreams = Upstreams(
        own=addresses[: topology.backends],
        standby=addresses[topology.backends :],
        pools={name: [app.address for app in members] for name, members in pools.items()},
        mirror=DARK_UPSTREAM if topology.mirror is not None else None,
        answers=f"{LOGS}/answers.jsonl" if topology.mirror is not None else None,
    )
    main = Front(MAIN, topology, upstreams, "access.jsonl", "answers.jsonl" if topology.mirror is not None else None)
    return Parts(main, behind, [*own, *(app for members in pools.values() for app in members), *others])


def dependency_tier(topology: Topology, dependency: Dependency) -> tuple[Front, list[AppService]]:
    """Return the tier behind the app; the lock of its app servers is one shared file."""
    own = plain(topology, backends=dependency.backends, workers=dependency.workers, backlog=dependency.backlog)
    more = dependency_settings(dependency, f"{SPANS}/dependency.lock")
    servers = [
        AppService(name, own, {**more, **service_names("dependency", name)})
        for name in (f"dependency-{n + 1}" for n in range(dependency.backends))
    ]
    return Front(DEPENDENCY, own, upstreams_of(servers), "dependency.jsonl"), servers


def dark_tier(topology: Topology, mirror: Mirror) -> tuple[Front, list[AppService]]:
    """Return the app servers that get copies of requests."""
    own = plain(topology, backends=mirror.backends, workers=mirror.workers)
    servers = [AppService(f"dark-{n + 1}", own, copy_settings(mirror)) for n in range(mirror.backends)]
    return Front(DARK, own, upstreams_of(servers), "dark.jsonl", "dark-answers.jsonl"), servers


def upstreams_of(servers: list[AppService]) -> Upstreams:
    """Return the upstreams of a tier that has nothing else."""
    return Upstreams(own=[server.address for server in servers])
