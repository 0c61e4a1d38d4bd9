"""The table of app servers: how each is started, how nginx connects to it, and what must be installed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

from sojourn.model.extras import install_command

from sojourn_lab.runtime.process import Process
from sojourn_lab.runtime.servers import java, others, own_app, python, ruby
from sojourn_lab.runtime.servers.others import program_missing
from sojourn_lab.runtime.servers.probe import Protocol
from sojourn_lab.runtime.servers.start import Start
from sojourn_lab.scenario.topology import Server, Topology

UWSGI = "apt install uwsgi-core uwsgi-plugin-python3"


@dataclass(frozen=True)
class Kind:
    """One kind of app server.

    Attributes:
        make: returns its process, not started.
        missing: returns what is not installed, None when nothing is.
        protocol: proxy (HTTP), fastcgi or uwsgi: the directive of nginx is `<protocol>_pass`.
        spans: the app writes spans.
        own_port: returns the port of a server that cannot inherit the lab's socket, once it is started.
        binds: the server binds the address that the lab chose; the lab does not listen there.
        lines: what else its location in nginx needs.
    """

    make: Callable[[Start], Process]
    missing: Callable[[], str | None]
    protocol: Protocol = "proxy"
    spans: bool = False
    own_port: Callable[[Start, Process], int] | None = None
    binds: bool = False
    lines: tuple[str, ...] = ()


def _gunicorn_missing() -> str | None:
    # By import and not by PATH: a virtual environment need not be activated.
    return None if find_spec("gunicorn") else f"gunicorn is not installed: {install_command('lab')}"


def _uvicorn_missing() -> str | None:
    return None if find_spec("uvicorn") else "uvicorn is not installed: pip install uvicorn"


def _fpm_missing() -> str | None:
    return None if others.fpm_program() else "php-fpm is not installed: apt install php-fpm"


SERVERS: dict[Server, Kind] = {
    "queue": Kind(python.queue, lambda: None, spans=True),
    "gunicorn": Kind(python.gunicorn, _gunicorn_missing, spans=True),
    "uwsgi": Kind(python.uwsgi, program_missing("uwsgi", install=UWSGI), "uwsgi"),
    "uvicorn": Kind(python.uvicorn, _uvicorn_missing, spans=True),
    "unicorn": Kind(ruby.unicorn, program_missing("unicorn")),
    "puma": Kind(ruby.puma, program_missing("puma")),
    "php-fpm": Kind(others.php_fpm, _fpm_missing, "fastcgi"),
    "node": Kind(others.node, program_missing("node")),
    "go": Kind(others.go, program_missing("go")),
    "java": Kind(java.java, program_missing("java", "javac"), own_port=java.java_port),
    # Tomcat answers 400 to a Host with an underscore, which the name of the lab's upstream has.
    "tomcat": Kind(java.tomcat, java.tomcat_missing, own_port=java.java_port, lines=("proxy_set_header Host $host;",)),
}

# An app may check the name that it is called by, or answer with links to it: the client's, not the upstream's.
OWN_APP = Kind(own_app.own_app, lambda: None, spans=True, binds=True, lines=("proxy_set_header Host $http_host;",))
"""The user's own app, started by a topology's `command`."""


def kind_of(topology: Topology) -> Kind:
    """Return the kind of the app servers of a topology."""
    return OWN_APP if topology.server == "command" else SERVERS[topology.server]


def why_server_unavailable(server: Server) -> str | None:
    """Return why this kind of app server cannot be started here; None if it can."""
    return SERVERS[server].missing()


def why_unavailable(topology: Topology) -> str | None:
    """Return why the app servers of a topology, or its command, cannot be started here; None if they can."""
    if topology.server == "command":
        return own_app.why_command_unavailable(topology)
    return why_server_unavailable(topology.server)
