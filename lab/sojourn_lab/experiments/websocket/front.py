"""The servers of the experiment: nginx in front of apps that hold WebSocket connections."""

from __future__ import annotations

import json
import os
import resource
import sys
from pathlib import Path
from urllib.request import urlopen

from sojourn_lab.errors import LabError
from sojourn_lab.resources import resource_file
from sojourn_lab.runtime.backends import Backend, listening_socket
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.runtime.process import Process
from sojourn_lab.runtime.proxy import Upstreams, http_text
from sojourn_lab.scenario.experiment_settings import Websocket
from sojourn_lab.scenario.topology import Topology

MOST_CONNECTIONS = 32_768
"""Of an nginx worker. A WebSocket takes two of them: the client's and the app's."""


def connections_allowed() -> int:
    """Return how many connections nginx may open: one file each, and only root can exceed the limit."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return MOST_CONNECTIONS if hard == resource.RLIM_INFINITY else min(MOST_CONNECTIONS, hard)


def check_room(expected: float, workers: int) -> None:
    """Raise LabError if nginx could not hold that many WebSockets."""
    room = workers * connections_allowed() // 2
    # A Poisson process makes a few more than expected; nginx has a few files and connections of its own.
    if 1.1 * expected + 100 > room:
        raise LabError(
            f"the ramp would make about {expected:.0f} connections, and {room} can be held here:"
            " a shorter one, or a higher limit of open files (ulimit -n)"
        )


def server_text(topology: Topology) -> str:
    """Return the inside of nginx's server block: an upgrade is passed on only in a location that sets it."""
    patience = f"{max(1, round(topology.proxy_read_timeout * 1000))}ms"
    return f"""
        location / {{
            include sojourn/sojourn_proxy.conf;
            proxy_http_version 1.1;
            proxy_set_header Upgrade $http_upgrade;
            proxy_set_header Connection "upgrade";
            proxy_pass http://lab_backends;
            # Between two pings of the app nothing may be sent at all.
            proxy_read_timeout {patience};
            proxy_send_timeout {patience};
        }}
"""


def nginx_before(backends: list[Backend], topology: Topology, folder: Path, access_log: Path) -> Nginx:
    """Return nginx in front of the apps, not started yet."""
    upstreams = Upstreams(own=[each.address for each in backends])
    return Nginx(
        folder,
        server_text(topology),
        access_log=access_log,
        http=http_text(topology, upstreams),
        workers=topology.nginx_workers,
        connections=connections_allowed(),
    )


def most_connections(app: Backend) -> int:
    """Return the maximum of connections that the app held at once, by its own count; LabError without one."""
    try:
        with urlopen(f"http://{app.address}/ready", timeout=10.0) as answer:
            return int(json.load(answer)["most"])
    except (OSError, ValueError, KeyError) as error:
        raise LabError(f"{app.name} does not say how many connections it held: {error}") from None


def started_app(name: str, settings: Websocket, topology: Topology, folder: Path) -> Backend:
    """Return an app, started but perhaps not ready yet; it logs into `folder`."""
    with listening_socket(topology.backlog) as listener:
        port = listener.getsockname()[1]
        command = [
            sys.executable,
            str(resource_file("backend", "websocket_server.py")),
            *("--fd", str(listener.fileno())),
            *("--flags", str(settings.flags)),
            *("--heartbeat", repr(settings.heartbeat)),
            *("--backlog", str(topology.backlog)),
        ]
        process = Process(
            command,
            name=name,
            folder=folder,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            cwd=resource_file("backend"),
            pass_fds=[listener.fileno()],
        )
        process.start()
        # Leaving the block closes the lab's copy: were it kept, a dead app would still accept.
    return Backend(name, port, process, None)
