"""The app servers of a run, each on a socket that the lab bound for it."""

from __future__ import annotations

import http.client
import math
import os
import shutil
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sojourn_lab.errors import LabError
from sojourn_lab.house import house_file
from sojourn_lab.process import Process
from sojourn_lab.topology import Topology

HOST = "127.0.0.1"
START_DEADLINE = 30.0


@dataclass(frozen=True)
class Backend:
    """A running app server: its process, its port, and where its spans go (None: it writes none)."""

    name: str
    port: int
    process: Process
    spans: Path | None

    @property
    def address(self) -> str:
        """Host and port, as nginx logs it in upstream_addr."""
        return f"{HOST}:{self.port}"

    def answers(self, timeout: float = 1.0) -> bool:
        """Return whether /ready is answered: on a one-worker server only once it is idle."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=timeout)
        try:
            connection.request("GET", "/ready")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def wait_until_ready(self, deadline: float = START_DEADLINE) -> None:
        """Return once /ready is answered; LabError with the server's last words if it is not."""
        self.process.wait_until(self.answers, deadline, f"{self.name} to answer /ready")


def why_server_unavailable(server: str) -> str | None:
    """Return why this kind of app server cannot be started here, None when it can."""
    if server == "queue":
        return None  # the lab's own
    if server == "gunicorn":
        # Not on PATH where the virtual environment is not activated: asked of Python instead.
        from importlib.util import find_spec  # noqa: PLC0415 - needed for this one question only

        return None if find_spec("gunicorn") else "gunicorn is not installed: pip install 'sojourn[lab]'"
    return None if shutil.which("unicorn") else "unicorn is not installed"


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


def started_backend(
    name: str, topology: Topology, folder: Path, environment: Mapping[str, str] | None = None
) -> Backend:
    """Return an app server, started but perhaps not ready yet; it logs into `folder`.

    `environment` has more variables for the app, such as `LAB_SLOWDOWN`, a factor on its service times.
    """
    reason = why_server_unavailable(topology.server)
    if reason is not None:
        raise LabError(reason)
    spans = None if topology.server == "unicorn" else folder / f"{name}.spans.jsonl"
    with listening_socket(topology.backlog, topology.defer_accept) as listener:
        port = listener.getsockname()[1]
        process = _MAKERS[topology.server](name, listener, topology, folder, spans, environment or {})
        process.start()
        # Leaving the block closes the lab's copy: were it kept, a dead backend would still accept.
    return Backend(name, port, process, spans)


def _environment(spans: Path | None, extra: Mapping[str, str]) -> dict[str, str]:
    # Nothing that steers telemetry or a server from outside may change what a scenario says.
    unwanted = ("OTEL_", "SOJOURN_", "GUNICORN_", "UNICORN_", "RACK_", "LISTEN_")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(unwanted)}
    if spans is not None:
        environment["SOJOURN_SPANS"] = str(spans)
    return {**environment, **extra}


def gunicorn_settings(bind: str, topology: Topology) -> str:
    """Return gunicorn's configuration file for a topology; `bind` is in gunicorn's words."""
    return f"""\
# Written by the lab: the article's settings, in gunicorn's words.
bind = "{bind}"
worker_class = "sync"
workers = {topology.workers}
backlog = {topology.backlog}
timeout = {whole_seconds(topology.worker_timeout)}
# The sync worker never keeps a connection alive; 0 says so to a reader.
keepalive = 0
# One control socket per home directory would be shared by all servers of this user.
control_socket_disable = True
"""


def _gunicorn(
    name: str, listener: socket.socket, topology: Topology, folder: Path, spans: Path | None, more: Mapping[str, str]
) -> Process:
    config = folder / f"{name}.gunicorn.py"
    config.write_text(gunicorn_settings(f"fd://{listener.fileno()}", topology))
    command = [sys.executable, "-m", "gunicorn", "--config", str(config), "app:application"]
    return _python_process(name, command, listener, folder, spans, more)


def _python_process(
    name: str,
    command: list[str],
    listener: socket.socket,
    folder: Path,
    spans: Path | None,
    more: Mapping[str, str],
) -> Process:
    return Process(
        command,
        name=name,
        folder=folder,
        env=_environment(spans, {"OTEL_SERVICE_NAME": name, "PYTHONDONTWRITEBYTECODE": "1", **more}),
        cwd=house_file("backend"),
        pass_fds=[listener.fileno()],
    )


def _unicorn(
    name: str, listener: socket.socket, topology: Topology, folder: Path, _spans: Path | None, more: Mapping[str, str]
) -> Process:
    host, port = listener.getsockname()
    config = folder / f"{name}.unicorn.rb"
    config.write_text(f"""\
# Written by the lab: the article's settings. The socket comes in UNICORN_FD; the address must
# be named all the same, because unicorn closes inherited sockets that its configuration does not know.
listen "{host}:{port}", backlog: {topology.backlog}
worker_processes {topology.workers}
timeout {whole_seconds(topology.worker_timeout)}
""")
    environment = _environment(
        None,
        {
            "UNICORN_FD": str(listener.fileno()),
            "SOJOURN_RUBY": str(house_file("middleware", "ruby", "sojourn.rb")),
            "RACK_ENV": "none",
            **more,
        },
    )
    command = [
        "unicorn",
        "--config-file",
        str(config),
        "--env",
        "none",
        str(house_file("backend", "config.ru")),
    ]
    return Process(command, name=name, folder=folder, env=environment, pass_fds=[listener.fileno()])


def queue_options(topology: Topology) -> list[str]:
    """Return what the command line of queue_server.py says about a topology."""
    rules = topology.rules
    return [
        *("--workers", str(topology.workers)),
        *("--discipline", topology.discipline),
        # settle() asks by /ready whether the queue has run empty.
        *("--last", "/ready"),
        *("--timeout", repr(topology.proxy_read_timeout)),
        *("--deadline-margin", repr(rules.deadline_margin)),
        *("--codel-target", repr(rules.codel_target)),
        *("--codel-interval", repr(rules.codel_interval)),
        *("--lifo-threshold", str(rules.lifo_threshold)),
        *("--calm-timeout", repr(rules.calm_timeout)),
        *("--busy-timeout", repr(rules.busy_timeout)),
        *(() if rules.capacity is None else ("--capacity", str(rules.capacity))),
    ]


def _queue(
    name: str, listener: socket.socket, topology: Topology, folder: Path, spans: Path | None, more: Mapping[str, str]
) -> Process:
    command = [
        sys.executable,
        str(house_file("backend", "queue_server.py")),
        "app:application",
        *("--fd", str(listener.fileno())),
        *queue_options(topology),
    ]
    return _python_process(name, command, listener, folder, spans, more)


_MAKERS = {"gunicorn": _gunicorn, "unicorn": _unicorn, "queue": _queue}


def whole_seconds(timeout: float) -> int:
    """Return the timeout as app servers take it, whole seconds, rounded up."""
    return max(1, math.ceil(timeout))
