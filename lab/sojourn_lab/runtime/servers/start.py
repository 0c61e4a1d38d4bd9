"""The parameters of one app server's start, and the process started with them."""

from __future__ import annotations

import math
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sojourn_lab.resources import resource_file
from sojourn_lab.runtime.process import Process
from sojourn_lab.scenario.topology import Topology

# Variables that configure telemetry or a server are not inherited: the scenario alone decides.
_UNWANTED = ("OTEL_", "SOJOURN_", "GUNICORN_", "UNICORN_", "PUMA_", "UWSGI_", "RACK_", "LISTEN_", "LAB_")


@dataclass(frozen=True)
class Start:
    """Parameters of the start of one app server.

    Attributes:
        name: of the backend; files in `folder` begin with it.
        topology: workers, threads, backlog and timeouts.
        folder: for settings, logs and programs that are built.
        listener: the listening socket that the server inherits.
        spans: the file for the app's spans; None: the app writes none.
        more: environment variables for the app, such as `LAB_SLOWDOWN`.
    """

    name: str
    topology: Topology
    folder: Path
    listener: socket.socket
    spans: Path | None
    more: Mapping[str, str]

    @property
    def fd(self) -> int:
        """The descriptor of the listening socket, the same in the server."""
        return self.listener.fileno()

    @property
    def bound(self) -> str:
        """The listening address: `host:port`, or the path of a Unix socket."""
        name = self.listener.getsockname()
        return name if isinstance(name, str) else f"{name[0]}:{name[1]}"

    def file(self, suffix: str, text: str) -> str:
        """Write a file of this server, such as its settings, and return its path."""
        path = self.folder / f"{self.name}.{suffix}"
        path.write_text(text)
        return str(path)

    def process(self, command: Sequence[str], **environment: str) -> Process:
        """Return the server's process, not started yet; it runs in the folder of the apps and inherits the socket."""
        return Process(
            command,
            name=self.name,
            folder=self.folder,
            env={**self._environment(), **environment, **self.more},
            cwd=resource_file("backend"),
            pass_fds=[self.fd],
        )

    def _environment(self) -> dict[str, str]:
        environment = {key: value for key, value in os.environ.items() if not key.startswith(_UNWANTED)}
        if self.spans is not None:
            environment["SOJOURN_SPANS"] = str(self.spans)
        return environment


def whole_seconds(timeout: float) -> int:
    """Return the timeout in whole seconds, rounded up, as app servers take it."""
    return max(1, math.ceil(timeout))
