"""One stack: nginx with the lines of README and doctor, two app servers, and a closed load of a number of requests."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from sojourn.doctor.findings import INFO
from sojourn.doctor.nginx_records import FULL
from sojourn_lab.load.plan import ClientRecord, Plan
from sojourn_lab.runtime.backends import started_backend
from sojourn_lab.runtime.interrupts import Interrupts
from sojourn_lab.runtime.lifecycle import Lifecycle
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.runtime.servers.location import follow_doctor, pass_lines
from sojourn_lab.runtime.servers.table import kind_of
from sojourn_lab.scenario.load import ClosedLoad
from sojourn_lab.scenario.topology import Topology

STACKS: dict[str, Topology] = {
    "php-fpm": Topology(server="php-fpm", workers=2, unix=True),
    "uwsgi": Topology(server="uwsgi", workers=2, unix=True),
    "gunicorn": Topology(server="gunicorn", workers=2),
    "node": Topology(server="node"),
    "go": Topology(server="go", workers=2),
    "java": Topology(server="java", workers=2),
    "puma": Topology(server="puma", threads=2, unix=True),
}
"""The stacks by name: two backends each, which serve two requests at once; Node's event loops one."""

LONGEST = 120.0
"""Seconds for which a stack is under load at most, whether all requests were sent or not."""
TIMEOUT = 10.0
BACKENDS = 2


@dataclass(frozen=True)
class Setup:
    """The load of every stack, and what its set-up omits.

    Attributes:
        requests: the number of requests in all.
        clients: each sends its next request as soon as it has an answer.
        service_time: of each request, s.
        stamps: False: nginx has no line of Sojourn in its location, so that requests have no stamp.
        silent: the number of backends whose app has no middleware.
    """

    requests: int = 2000
    clients: int = 12
    service_time: float = 0.01
    stamps: bool = True
    silent: int = 0


class Stack(Lifecycle):
    """A context in which a stack runs as processes of this machine, with its files in `folder`."""

    def __init__(self, name: str, setup: Setup, folder: Path, interrupts: Interrupts) -> None:
        folder.mkdir()
        super().__init__(folder / "logs", interrupts)
        self._topology = STACKS[name]
        self._setup = setup
        self._folder = folder
        self.access_log = folder / "access.jsonl"
        self.followed: list[str] = []
        """Codes of the findings whose lines were added to nginx.conf."""
        self._nginx: Nginx | None = None

    @property
    def conf(self) -> Path:
        """The configuration of nginx."""
        return self._folder / "nginx" / "nginx.conf"

    def _start_all(self) -> None:
        sockets = Path(self._stack.enter_context(TemporaryDirectory(prefix="lab-")))
        backends = []
        for number in range(BACKENDS):
            more = {"LAB_SILENT": "1"} if number < self._setup.silent else {}
            with self._interrupts.shielded():
                backend = started_backend(f"app-{number + 1}", self._topology, self._logs, more, sockets=sockets)
                self._stack.callback(backend.process.stop)
            backends.append(backend)
        for backend in backends:
            backend.wait_until_ready()
        servers = "\n        ".join(f"server {each.address};" for each in backends)
        with self._interrupts.shielded():
            nginx = Nginx(
                self._folder,
                self._server_text(),
                access_log=self.access_log,
                http=f"\n    upstream app {{\n        {servers}\n    }}\n",
                edit=self._follow_doctor if self._setup.stamps else None,
            )
            nginx.start()
            self._stack.callback(nginx.stop)
        self._nginx = nginx

    def _server_text(self) -> str:
        protocol = kind_of(self._topology).protocol
        own = [FULL.include_line(protocol)] if self._setup.stamps else []
        lines = "\n            ".join([*own, *pass_lines(protocol, "app")])
        return f"        location / {{\n            {lines}\n        }}"

    def _follow_doctor(self, path: Path) -> None:
        self.followed = follow_doctor(path, lambda finding: finding.severity != INFO)

    def load(self) -> list[ClientRecord]:
        """Send the requests and return the clients' records; LabError if the generator fails."""
        client_log = self._folder / "client.jsonl"
        plan = Plan(
            case="stack",
            url="" if self._nginx is None else self._nginx.url,
            seed=[1, 0],
            load=ClosedLoad(self._setup.clients),
            service_time=self._setup.service_time,
            warmup=0.0,
            duration=LONGEST,
            timeout=TIMEOUT,
            most_requests=self._setup.requests,
            client_log=str(client_log),
            summary=str(self._folder / "summary.json"),
        )
        (self._folder / "plan.json").write_bytes(msgspec.json.encode(plan))
        command = [sys.executable, "-m", "sojourn_lab.load.generator", str(self._folder / "plan.json")]
        generator = self.started(command, "generator")
        generator.wait_until(lambda: generator.exit_code() == 0, LONGEST + 3.0 * TIMEOUT, "the load to end")
        return msgspec.json.Decoder(ClientRecord).decode_lines(client_log.read_bytes())
