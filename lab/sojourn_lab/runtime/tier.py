"""Another tier of a run: app servers behind an nginx of their own, with a log of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from sojourn_lab.runtime.backends import Backend
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.runtime.proxy import ANSWER_LOG, Upstreams, server_text
from sojourn_lab.runtime.proxy import http_text as proxy_text
from sojourn_lab.scenario.topology import Topology, changed
from sojourn_lab.scenario.topology_parts import Dependency, Mirror

TRUSTED = "127.0.0.1 1;\n"
"""Peers whose trace and request id this tier's nginx trusts: the app in front, or the mirroring nginx."""

StartServer = Callable[[str, Topology, Mapping[str, str]], Backend]


@dataclass(frozen=True)
class Tier:
    """A tier: `nginx` is started later, and stopped after its clients. `backends` are started already."""

    nginx: Nginx
    backends: list[Backend]


def dependency_tier(dependency: Dependency, topology: Topology, folder: Path, logs: Path, start: StartServer) -> Tier:
    """Return the tier behind the app; its log is dependency.jsonl."""
    own = plain(topology, backends=dependency.backends, workers=dependency.workers, backlog=dependency.backlog)
    more = dependency_settings(dependency, str(logs / "dependency.lock"))
    servers = [
        start(f"dependency-{n + 1}", own, {**more, **service_names("dependency", f"dependency-{n + 1}")})
        for n in range(dependency.backends)
    ]
    return _tier(own, servers, folder / "dependency.jsonl", logs / "dependency-nginx")


def dependency_settings(dependency: Dependency, lock: str) -> dict[str, str]:
    """Return the environment variables of the app servers of the tier behind the app; `lock`: file of their lock."""
    slowdown = {"LAB_SLOWDOWN": repr(dependency.slowdown)} if dependency.slowdown != 1.0 else {}
    return {**({"LAB_LOCK": lock} if dependency.lock else {}), **slowdown}


def mirror_tier(mirror: Mirror, topology: Topology, folder: Path, logs: Path, start: StartServer) -> Tier:
    """Return the app servers that receive copies of requests; their log is dark.jsonl."""
    own = plain(topology, backends=mirror.backends, workers=mirror.workers)
    servers = [start(f"dark-{n + 1}", own, copy_settings(mirror)) for n in range(mirror.backends)]
    return _tier(own, servers, folder / "dark.jsonl", logs / "dark-nginx", answers=folder / "dark-answers.jsonl")


def copy_settings(mirror: Mirror) -> dict[str, str]:
    """Return the environment variables of app servers that receive copies."""
    return {"LAB_ANSWERS": "1", "LAB_SLOWDOWN": repr(mirror.slowdown), "LAB_DIFFERS": repr(mirror.differs)}


def plain(topology: Topology, **values: object) -> Topology:
    """Return a topology of the same kind of app server with other values, without further tiers."""
    alone = {"pools": [], "standby": 0, "slowdown": [], "mirror": None, "dependency": None, "connection_cap": None}
    return changed(topology, **{**alone, **values})


def service_names(service: str, instance: str) -> dict[str, str]:
    """Return the variables that name the service and its instance in an app server's spans."""
    return {"OTEL_SERVICE_NAME": service, "OTEL_RESOURCE_ATTRIBUTES": f"service.instance.id={instance}"}


def _tier(topology: Topology, servers: list[Backend], log: Path, folder: Path, *, answers: Path | None = None) -> Tier:
    for server in servers:
        server.wait_until_ready()
    upstreams = Upstreams(own=[server.address for server in servers])
    folder.mkdir()
    more = "" if answers is None else ANSWER_LOG.format(path=answers)
    nginx = Nginx(
        folder,
        server_text(topology, upstreams),
        access_log=log,
        http=proxy_text(topology, upstreams) + more,
        files={"trusted.conf": TRUSTED},
    )
    return Tier(nginx, servers)
