"""The compose runtime: nginx and the app servers of one run, each in a container."""

from __future__ import annotations

import http.client
import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sojourn_lab.errors import LabError
from sojourn_lab.runtime.compose import shared_folders
from sojourn_lab.runtime.compose.containers import Containers
from sojourn_lab.runtime.compose.engine import (
    Engine,
    engine_here,
    image_id,
    image_ids,
    image_of,
    last_line,
    owner_here,
    remove_leftovers,
)
from sojourn_lab.runtime.compose.nginx_conf import nginx_text
from sojourn_lab.runtime.compose.parts import CONTROL_PORT, HTTP_PORT, MAIN, parts_of
from sojourn_lab.runtime.compose.project import Place, project_text
from sojourn_lab.runtime.compose.refusals import why_topology_refused
from sojourn_lab.runtime.interrupts import Interrupts
from sojourn_lab.runtime.lifecycle import Lifecycle
from sojourn_lab.scenario.case import Action
from sojourn_lab.scenario.topology import Topology

HOST = "127.0.0.1"
START_PATIENCE = 60.0
RELOAD_PATIENCE = 10.0
NOT_ROOT = 10_001
"""The user in the containers if root runs the lab: root in a container would be root of the host."""

_VERSIONS = """
import importlib.metadata, json, platform
versions = {name: importlib.metadata.version(name) for name in ("gunicorn", "sojourn-middleware", "opentelemetry-sdk")}
print(json.dumps({"python": platform.python_version(), **versions}))
"""


@dataclass(frozen=True)
class ContainerBackend:
    """An app server in a container: the name of its service, and the file of its spans."""

    name: str
    spans: Path | None


class ComposeRuntime(Lifecycle):
    """A context in which the topology runs in containers.

    compose/ in the folder (or where `nginx_in` says) has everything the
    containers read and write; access.jsonl and listen.jsonl get their lines when all is down.
    """

    kind: Literal["process", "compose"] = "compose"

    def __init__(
        self, topology: Topology, folder: Path, logs: Path, interrupts: Interrupts, *, nginx_in: Path | None = None
    ) -> None:
        super().__init__(logs, interrupts)
        self._topology = topology
        self._shared = (nginx_in or folder).resolve() / "compose"
        self._control = 0
        self._parts = parts_of(topology)
        self.upstreams = self._parts.main.upstreams
        self.project = f"sojourn-lab-{secrets.token_hex(5)}"
        # The nginxes last: without an app they do not resolve its address and end too, with a misleading message.
        members = list(reversed(self._parts.ports))
        self._containers = Containers(self.project, self._shared / "compose.yaml", members, logs, interrupts)
        self._run_folder = folder
        self.access_log = folder / "access.jsonl"
        self.listen_log = folder / "listen.jsonl"
        self.backends = [
            ContainerBackend(app.name, shared_folders.spans_of(self._shared, app)) for app in self._parts.apps
        ]
        self.url = ""
        self.versions: dict[str, str] = {}
        """Of the engine and of what runs in the containers, and the ids of the images."""

    def _start_all(self) -> None:
        if (reason := why_topology_refused(self._topology)) is not None:
            raise LabError(reason)
        engine = engine_here()
        images = image_ids([image_of("app"), image_of("nginx")])
        sampler = image_id(image_of("tools"))
        remove_leftovers()
        self._lay_out(engine, sampled=sampler is not None)
        self._stack.callback(self._gather)
        self._stack.enter_context(self._containers)
        self._containers.bring_up()
        self._control = self._containers.published(MAIN, CONTROL_PORT)
        self._wait_until_idle(START_PATIENCE)
        if sampler is not None:
            images[image_of("tools")] = sampler
            # Wait until each has started: starting uses processor time of the first case.
            files = [shared_folders.sampler_file(self._shared, name) for name in self._parts.ports]
            self._containers.wait_until(
                lambda: all(file.exists() and file.stat().st_size for file in files),
                START_PATIENCE,
                "the samplers of the accept queues",
            )
        self.versions = self._versions(engine, images)
        self.url = f"http://{HOST}:{self._containers.published(MAIN, HTTP_PORT)}"

    def _lay_out(self, engine: Engine, *, sampled: bool) -> None:
        user, group = user_inside(os.getuid(), os.getgid(), rootless=engine.rootless)
        place = Place(self.project, self._shared, f"{user}:{group}", owner_here(), engine.processors)
        shared_folders.lay_out(self._shared, self._parts)
        for front in self._parts.fronts:
            shared_folders.write_nginx(self._shared, front, nginx_text(front, self._parts, front.upstreams))
        text = project_text(place, self._parts, sampled=sampled)
        (self._shared / "compose.yaml").write_text(text)
        if not sampled:
            reason = shared_folders.NO_SAMPLERS.format(image_of("tools"))
            with self.listen_log.open("a") as out:
                out.write(json.dumps({"unavailable": reason}) + "\n")
        if os.getuid() == 0 and user != 0:
            shared_folders.give(self._shared, user, group)
            self._stack.callback(shared_folders.give, self._shared, 0, 0)

    def _versions(self, engine: Engine, images: dict[str, str]) -> dict[str, str]:
        inside = self._containers.output_of(self._parts.apps[0].name, "python3", "-c", _VERSIONS)
        return {
            "nginx": shared_folders.nginx_version(self._shared),
            **json.loads(inside),
            "docker": engine.version,
            "docker compose": engine.compose,
            **{f"image {name}": identity for name, identity in images.items()},
        }

    def _wait_until_idle(self, patience: float) -> None:
        waiting = [app.name for app in self._parts.apps]

        def none_waits() -> bool:
            while waiting and answers_ready(self._control, waiting[0]):
                del waiting[0]
            return not waiting

        self._containers.wait_until(none_waits, patience, "every app server to answer /ready")

    def settle(self, deadline: float) -> None:
        """Return when every backend answers again, so that no case inherits work of the previous one."""
        self._wait_until_idle(deadline)

    def perform(self, action: Action) -> None:
        """Perform the action; return when nginx uses it. LabError if it is not possible."""
        self.upstreams = self.upstreams.after(action)
        main = self._parts.main
        shared_folders.write_nginx(self._shared, main, nginx_text(main, self._parts, self.upstreams))
        before = self._accepting()
        self._containers.hang_up(MAIN)

        def reloaded() -> bool:
            now = self._accepting()
            return bool(now) and not now & before

        try:
            self._containers.wait_until(reloaded, RELOAD_PATIENCE, "nginx to take its new configuration")
        except LabError as error:
            raise LabError(f"{error}: {last_line(shared_folders.error_log_text(self._shared))}") from None

    def _accepting(self) -> set[int]:
        # nginx puts a worker's state into its process title; a worker that only finishes its requests is marked there.
        worker = "nginx: worker process"
        processes = self._containers.processes(MAIN).items()
        return {pid for pid, title in processes if title.startswith(worker) and "shutting down" not in title}

    def _gather(self) -> None:
        for name in self._parts.logs:
            shared_folders.append(self._shared / "log" / name, self._run_folder / name)
        shared_folders.append_samples(self._shared, self._parts.ports, self.listen_log)


def user_inside(user: int, group: int, *, rootless: bool) -> tuple[int, int]:
    """Return the user of the containers, so that their files belong to the user of the lab.

    Never root on this machine: for root it is a user without a name. With a rootless engine its root is the invoking
    user only.
    """
    if rootless:
        return 0, 0
    return (user, group) if user else (NOT_ROOT, NOT_ROOT)


def answers_ready(port: int, name: str) -> bool:
    """Return whether an app server answers /ready, requested through nginx's second port."""
    connection = http.client.HTTPConnection(HOST, port, timeout=1.0)
    try:
        connection.request("GET", f"/ready/{name}")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
