"""nginx, the collector and its broker, started and always stopped together."""

from __future__ import annotations

import http.client
import os
import sys
from typing import Any

import msgspec

from sojourn_lab.errors import LabError
from sojourn_lab.experiments.stage import Stage
from sojourn_lab.resources import resource_file
from sojourn_lab.runtime.backends import HOST, listening_socket
from sojourn_lab.runtime.lifecycle import Lifecycle
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.runtime.process import Process
from sojourn_lab.scenario.experiment_settings import Collector

START_DEADLINE = 30.0
BACKLOG = 1024

HTTP = """
    # The generator names the case it is measuring.
    map $http_x_lab_case $sojourn_service {{
        default $http_x_lab_case;
    }}

    upstream collector {{
        server {address};
        keepalive 64;
    }}
"""
SERVER = """
        location / {
            include sojourn/sojourn_proxy.conf;
            add_header X-Request-ID $sojourn_request_id always;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_pass http://collector;
        }
"""


class System(Lifecycle):
    """A context in which the system of one case runs, with all its output in the folder of its logs.

    Attributes:
        url: where nginx answers.
        acknowledged: the collector's file, a line for each batch acknowledged.
        samples: the collector's file of samples.
        stored: the broker's file, a line for each event.
        spin_up, tear_down: s.
    """

    def __init__(self, stage: Stage, settings: Collector) -> None:
        cores = len(os.sched_getaffinity(0))
        if settings.cores > cores:
            raise LabError(f"the case {stage.case.name} needs {settings.cores} cores, this machine has {cores}")
        super().__init__(stage.logs, stage.interrupts)
        self._stage = stage
        self._settings = settings
        self._port = 0
        self._collector: Process | None = None
        self.acknowledged = stage.logs / "acknowledged.jsonl"
        self.samples = stage.logs / "samples.jsonl"
        self.stored = stage.logs / "broker.jsonl"
        self.url = ""

    def _start_all(self) -> None:
        settings, folder = self._settings, self._stage.logs
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        program = str(resource_file("backend", "collector_broker.py"))
        with listening_socket(BACKLOG) as listener:
            broker = f"{HOST}:{listener.getsockname()[1]}"
            fd = str(listener.fileno())
            options = ["--fd", fd, "--ack", repr(settings.ack), "--log", str(self.stored)]
            self.started([sys.executable, program, *options], "broker", pass_fds=[listener.fileno()], env=environment)
        with listening_socket(BACKLOG) as listener:
            self._port = listener.getsockname()[1]
            command = collector_command(settings, listener.fileno(), broker)
            files = ["--log", str(self.acknowledged), "--samples", str(self.samples)]
            self._collector = self.started(
                [*command, *files], "collector", pass_fds=[listener.fileno()], env=environment
            )
        self._collector.wait_until(
            lambda: self._get_json("/ready") is not None, START_DEADLINE, "the collector to answer /ready"
        )
        with self._stage.interrupts.shielded():
            address = f"{HOST}:{self._port}"
            nginx = Nginx(folder, SERVER, access_log=self._stage.access_log, http=HTTP.format(address=address))
            nginx.start()
            self._stack.callback(nginx.stop)
        self.url = nginx.url

    def drain(self, deadline: float) -> None:
        """Return once all that the collector accepted is acknowledged; LabError if that takes too long."""
        if self._collector is None:
            raise LabError("the collector was never started")

        def empty() -> bool:
            stats = self._get_json("/stats")
            return stats is not None and stats["held"] == 0

        self._collector.wait_until(empty, deadline, "the channel to run empty")

    def _get_json(self, path: str) -> dict[str, Any] | None:
        connection = http.client.HTTPConnection(HOST, self._port, timeout=2.0)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            body = answer.read()
            return None if answer.status != 200 else msgspec.json.decode(body or b"{}", type=dict[str, Any])
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()


def collector_command(settings: Collector, fd: int, broker: str) -> list[str]:
    """Return the command that starts the collector on an inherited socket, without its output files."""
    return [
        sys.executable,
        str(resource_file("backend", "collector_server.py")),
        *("--fd", str(fd)),
        *("--broker", broker),
        *("--channel", str(settings.channel)),
        *("--consumers", str(settings.consumers)),
        *("--batch", str(settings.batch)),
        *("--event-cpu", repr(settings.event_cpu)),
        *("--cores", str(settings.cores)),
    ]
