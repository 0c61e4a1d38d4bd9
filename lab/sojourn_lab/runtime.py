"""The process runtime: nginx, the app servers and the sampler of one run, up and always down again."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Self

from sojourn_lab.backends import Backend, started_backend
from sojourn_lab.interrupts import Interrupts
from sojourn_lab.listen import ListenSampler
from sojourn_lab.nginx import Nginx
from sojourn_lab.process import Process
from sojourn_lab.topology import Balancer, Topology

BALANCER_LINES: dict[Balancer, str] = {
    "round_robin": "",  # what nginx does when nothing is said
    "least_conn": "least_conn;",
    "random_two": "random two least_conn;",
}


def http_text(topology: Topology, backends: list[Backend]) -> str:
    """Return the http level of the lab's nginx: who the upstream is, and that a row tells its case."""
    servers = "\n        ".join(f"server {backend.address};" for backend in backends)
    return f"""
    # The generator names the case it is measuring; outside the lab a user maps $host or a constant here.
    map $http_x_lab_case $sojourn_service {{
        default $http_x_lab_case;
    }}

    # No keep-alive: a connection a request, as to the article's app servers.
    upstream lab_backends {{
        {BALANCER_LINES[topology.balancer]}
        {servers}
    }}
"""


def server_text(topology: Topology) -> str:
    """Return the inside of the lab's server block; the times are nginx's, in milliseconds."""
    return f"""
        location / {{
            include sojourn/sojourn_proxy.conf;
            # Lets client.jsonl name the row of the log, also for what never reached an app.
            add_header X-Request-ID $sojourn_request_id always;
            proxy_pass http://lab_backends;
            proxy_read_timeout {max(1, round(topology.proxy_read_timeout * 1000))}ms;
        }}
"""


class ProcessRuntime:
    """A context in which the topology runs: ready when entered, gone when left, whatever happened inside.

    `spin_up` and `tear_down` are seconds. The folder gets nginx/ (unless `nginx_in` says where else), access.jsonl,
    listen.jsonl, both after what is in them already, and logs/.
    """

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
        for number in range(1, self._topology.backends + 1):
            with self._interrupts.shielded():
                backend = started_backend(number, self._topology, self._logs)
                self._stack.callback(backend.process.stop)
                self.backends.append(backend)
        for backend in self.backends:
            backend.wait_until_ready()
        with self._interrupts.shielded():
            nginx = Nginx(
                self._nginx_in,
                server_text(self._topology),
                access_log=self.access_log,
                http=http_text(self._topology, self.backends),
            )
            nginx.start()
            self._stack.callback(nginx.stop)
            self.nginx = nginx
        ports = {"nginx": nginx.port, **{backend.name: backend.port for backend in self.backends}}
        self._stack.enter_context(ListenSampler(self.listen_log, ports, keep=True))

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
