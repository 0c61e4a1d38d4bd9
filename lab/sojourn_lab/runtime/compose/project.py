"""The configuration of Compose: a project of nginx, the app servers and the samplers of their accept queues."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sojourn_lab.measure.listen import PERIOD
from sojourn_lab.runtime.compose.engine import OWNER_LABEL, image_of
from sojourn_lab.runtime.compose.parts import (
    APP_PORT,
    CONTROL_PORT,
    HTTP_PORT,
    LOGS,
    MAIN,
    SPANS,
    AppService,
    Front,
    Parts,
)
from sojourn_lab.runtime.servers.python import queue_options

STOP_S = 7
"""Seconds until a container is killed: nginx lets requests in progress finish for four."""

FILES = 16_384
"""Open files of a container: two for each connection nginx may hold, and as many again."""


@dataclass(frozen=True)
class Place:
    """A project: its name, its folder on this machine, the owner of its files, the label of its containers."""

    project: str
    folder: Path
    user: str
    owner: str
    processors: int = 1

    def shared(self, name: str, at: str, *, written: bool = False) -> dict[str, Any]:
        """Return a mount of one of the folders below `folder`."""
        mount = {"type": "bind", "source": str(self.folder / name), "target": at}
        return mount if written else {**mount, "read_only": True}


def project_text(place: Place, parts: Parts, *, sampled: bool) -> str:
    """Return the compose file as JSON, which every YAML reader accepts.

    `sampled`: a container beside each server watches its accept queue, in that server's own network namespace.
    """
    services = {front.name: nginx_service(place, front, parts) for front in parts.fronts}
    services |= {app.name: app_service(place, app) for app in parts.apps}
    if sampled:
        services |= {sampler_name(name): sampler_service(place, name, port) for name, port in parts.ports.items()}
    labels = {OWNER_LABEL: place.owner}
    # The apps reach only nginx; `edge` exists because a port of an internal network cannot be published.
    networks = {"web": {"internal": True, "labels": labels}, "edge": {"labels": labels}}
    project = {"name": place.project, "services": services, "networks": networks}
    return json.dumps(without_variables(project), indent=2) + "\n"


def without_variables(value: Any) -> Any:
    """Return the value with every $ doubled, so that Compose does not replace it as a variable."""
    match value:
        case str():
            return value.replace("$", "$$")
        case dict():
            return {key: without_variables(each) for key, each in value.items()}
        case list():
            return [without_variables(each) for each in value]
        case _:
            return value


def sampler_name(name: str) -> str:
    """Return the name of the sampler's service for another service."""
    return f"listen-{name}"


def confined(place: Place, name: str, image: str, *, processors: float, megabytes: int) -> dict[str, Any]:
    """Return the settings of all services: no privileges, a read-only root, limits, the run's label."""
    return {
        "image": image,
        "pull_policy": "never",
        "container_name": f"{place.project}-{name}",
        "user": place.user,
        "init": True,
        "restart": "no",
        "read_only": True,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "tmpfs": ["/tmp"],  # noqa: S108 - inside the container
        "pids_limit": 512,
        "cpus": float(min(processors, place.processors)),
        "mem_limit": f"{megabytes}m",
        "ulimits": {"nofile": FILES},
        "stop_grace_period": f"{STOP_S}s",
        "labels": {OWNER_LABEL: place.owner},
        "logging": {"driver": "json-file", "options": {"max-size": "10m", "max-file": "2"}},
    }


def nginx_service(place: Place, front: Front, parts: Parts) -> dict[str, Any]:
    """Return an nginx: its configuration comes from the run's folder, and it may write its logs there and nothing else.

    The public one publishes its ports on this machine's loopback; only the apps can reach the others.
    """
    workers = front.topology.nginx_workers
    # By name: nginx looks its upstreams up once, when it starts.
    needed = [app.name for app in parts.apps]
    outside: dict[str, Any] = {"networks": ["web"]}
    if front.name == MAIN:
        needed += [each.name for each in parts.behind]
        ports = [f"127.0.0.1::{HTTP_PORT}", f"127.0.0.1::{CONTROL_PORT}"]
        outside = {"networks": ["web", "edge"], "ports": ports}
    error_log = f"{LOGS}/{front.name}.error.log"
    return {
        **confined(place, front.name, image_of("nginx"), processors=workers, megabytes=128 + 32 * workers),
        "entrypoint": ["nginx", "-c", "/lab/nginx/nginx.conf", "-e", error_log],
        "command": [],
        "stop_signal": "SIGQUIT",
        **outside,
        "volumes": [place.shared(front.name, "/lab/nginx"), place.shared("log", LOGS, written=True)],
        "depends_on": {name: {"condition": "service_started"} for name in needed},
    }


def app_service(place: Place, app: AppService) -> dict[str, Any]:
    """Return an app server: packages from the image, app and settings from the lab."""
    workers = app.topology.workers
    return {
        **confined(place, app.name, image_of("app"), processors=workers, megabytes=160 + 64 * workers),
        "entrypoint": app_command(app),
        "command": [],
        "working_dir": "/lab/app",
        "environment": {
            "OTEL_SERVICE_NAME": app.name,
            "SOJOURN_SPANS": f"{SPANS}/{app.name}.spans.jsonl",
            "PYTHONDONTWRITEBYTECODE": "1",
            **app.more,
        },
        # The upper bound of every backlog, per container.
        "sysctls": {"net.core.somaxconn": str(max(4096, app.topology.backlog))},
        "networks": ["web"],
        "volumes": [place.shared("app", "/lab/app"), place.shared("spans", SPANS, written=True)],
    }


def app_command(app: AppService) -> list[str]:
    """Return the command that starts the app server in its container, listening on its port."""
    if app.topology.server == "queue":
        where = ["--host", "0.0.0.0", "--port", str(APP_PORT), "--backlog", str(app.topology.backlog)]  # noqa: S104
        return ["python3", "queue_server.py", "app:application", *where, *queue_options(app.topology)]
    return ["gunicorn", "--config", settings_file(app), "app:application"]


def settings_file(app: AppService) -> str:
    """Return the name of gunicorn's configuration, next to the app."""
    return f"{app.name}.gunicorn.py"


def sampler_service(place: Place, name: str, port: int) -> dict[str, Any]:
    """Return the sampler of another service's accept queue, in that service's network namespace."""
    out = f"{LOGS}/{sampler_name(name)}.jsonl"
    return {
        **confined(place, sampler_name(name), image_of("tools"), processors=1.0, megabytes=256),
        "entrypoint": ["sojourn", "lab", "listen", f"{name}={port}", "--every", str(PERIOD), "--out", out],
        "command": [],
        "network_mode": f"service:{name}",
        "volumes": [place.shared("log", LOGS, written=True)],
    }
