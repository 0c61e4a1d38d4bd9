"""Check how many connections may wait for the apps that listen on this machine."""

from __future__ import annotations

from sojourn.doctor.app_lookup import local_port
from sojourn.doctor.findings import INFO, RUN, Diagnosis, Finding
from sojourn.doctor.nginx_levels import Conf
from sojourn.host.sock_diag import listening_sockets
from sojourn.model.errors import SojournError
from sojourn.model.formatting import counted, printable

FEW = 64  # connections: a burst of more is turned away, and tries again a second later
UNSEEN = "The backlog of the app's own listening socket: sojourn kernel shows it, on the app's machine."


def app_sockets(conf: Conf) -> Diagnosis:
    """Return what the kernel reports about the apps' listening sockets; unseen where they are elsewhere."""
    diagnosis = Diagnosis()
    ports = _ports(conf)
    limits: dict[int, int] = {}
    if ports:
        try:
            limits = {each.port: each.limit for each in listening_sockets() if each.port in ports}
        except (SojournError, OSError):
            limits = {}
    for port, limit in sorted(limits.items()):
        if limit < FEW:
            diagnosis.findings.append(_small(port, limit, ports[port]))
        else:
            diagnosis.checked.append(f"{counted(limit, 'connection')} may wait for the app at port {port}")
    if len(limits) < len(ports) or not ports:
        diagnosis.unseen.append(UNSEEN)
    return diagnosis


def _ports(conf: Conf) -> dict[int, str]:
    """Return port -> the place that names it, for backends on this machine."""
    named = [(each.args[0], each.where) for up in conf.upstreams.values() for each in up.all("server") if each.args]
    named += [(each.target, each.directive.where) for each in conf.passes if each.target not in conf.upstreams]
    return {port: where for text, where in named if (port := local_port(text)) is not None}


def _small(port: int, limit: int, where: str) -> Finding:
    return Finding(
        "backlog-app",
        INFO,
        f"port {port}",
        f"Only {limit + 1} connections may wait for the app at port {port}.",
        "A burst of more is turned away by the kernel; nginx tries again after a second, and it counts as connecting.",
        "gunicorn --backlog 2048",
        printable(where, 300),
        RUN,
        into="the app's command",
    )
