"""Check what affects a measurement outside of locations: backlogs, connections, limits, clocks, route names."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sojourn.doctor.app_lookup import local_port
from sojourn.doctor.findings import ADD, INFO, REPLACE, RUN, WARNING, Diagnosis, Finding
from sojourn.doctor.nginx_levels import (
    INDENT,
    Conf,
    Level,
    at_top,
    instead_of,
    place_of,
    removing,
    replacing,
    written,
)
from sojourn.host.sock_diag import listening_sockets
from sojourn.model.errors import SojournError
from sojourn.model.formatting import counted, printable
from sojourn.nginx.syntax import Directive

DEFAULT_BACKLOG = 511  # nginx's, on Linux
DEFAULT_CONNECTIONS = 512
FEW_CONNECTIONS = 1024
FEW_WAITING = 64  # connections: a burst of more is turned away, and tries again a second later
UNSEEN = "The backlog of the app's own listening socket: sojourn kernel shows it, on the app's machine."
_RAW = re.compile(r"\$\{?(?:uri|request_uri|document_uri|request|args|query_string)\b")


def machine_findings(conf: Conf) -> Iterator[Finding]:
    """Yield what is wrong outside of any one location."""
    yield from _listens(conf)
    yield from _connections(conf)
    yield from _timer(conf)
    yield from _limits(conf)
    yield from _routes(conf)


def _listens(conf: Conf) -> Iterator[Finding]:
    # Options of one server apply to every server that listens on the same address.
    listens: dict[str, list[tuple[Level, Directive]]] = {}
    for level in conf.levels:
        if level.directive.name == "server":
            for each in level.own("listen"):
                if each.args and not {"quic", "udp"} & set(each.args):
                    listens.setdefault(each.args[0], []).append((level, each))
    for same in listens.values():
        yield from _backlog(conf, *next((one for one in same if _backlog_option(one[1])), same[0]))
        for level, each in same:
            if "reuseport" in each.args:
                text = written(Directive("listen", [word for word in each.args if word != "reuseport"], ""))
                yield Finding(
                    "reuseport",
                    INFO,
                    f"listen {printable(each.args[0])}",
                    f"Each nginx worker has an accept queue of its own on {printable(each.args[0])} (reuseport).",
                    "The kernel deals connections out by hash: one waits at a busy worker while another is idle. The "
                    "backlog, and what sojourn kernel shows of it, is then per worker.",
                    *replacing(each, text, level),
                )


def _backlog_option(listen: Directive) -> str:
    return next((word.removeprefix("backlog=") for word in listen.args if word.startswith("backlog=")), "")


def _backlog(conf: Conf, level: Level, each: Directive) -> Iterator[Finding]:
    option = _backlog_option(each)
    backlog = int(option[:10]) if option.isdecimal() else DEFAULT_BACKLOG
    if conf.somaxconn is None or backlog <= conf.somaxconn:
        return
    origin = f"backlog={backlog}" if option else f"nginx's default of {DEFAULT_BACKLOG}"
    yield Finding(
        "backlog-capped",
        WARNING,
        f"listen {printable(each.args[0])}",
        f"The listen backlog of {printable(each.args[0])} is {conf.somaxconn}, not {backlog} ({origin}).",
        f"The kernel cuts it to net.core.somaxconn = {conf.somaxconn} silently: connections that should wait are "
        "dropped.",
        f"sysctl -w net.core.somaxconn={max(backlog, 4096)}\n"
        f"echo net.core.somaxconn={max(backlog, 4096)} > /etc/sysctl.d/90-backlog.conf",
        place_of(each, level),
        RUN,
    )


def _connections(conf: Conf) -> Iterator[Finding]:
    if conf.fragment:
        return
    events = [each for each in conf.read.root.block if each.name == "events"]
    lines = [d for each in events for d in each.block if d.name == "worker_connections"]
    text = "worker_connections 4096;"
    number = lines[-1].args[0] if lines and lines[-1].args else str(DEFAULT_CONNECTIONS)
    if not number.isdecimal() or int(number[:10]) >= FEW_CONNECTIONS or not events:
        return
    level = Level(events[-1])
    edit = instead_of(lines[-1], text) if lines else at_top(level, text)
    yield Finding(
        "connections-few",
        INFO,
        "events",
        f"An nginx worker holds {number} connections{'' if lines else ', the default'}.",
        "A proxied request takes two. When none is left, requests wait unlogged in the kernel, or fail.",
        text,
        place_of(lines[-1] if lines else events[-1], level),
        REPLACE if lines else ADD,
        (edit,),
    )


def _timer(conf: Conf) -> Iterator[Finding]:
    for each in conf.read.root.block:
        if each.name == "timer_resolution" and each.args:
            yield Finding(
                "clock-coarse",
                WARNING,
                "timer_resolution",
                f"nginx reads the clock every {printable(each.args[0])} only.",
                "The stamp and every time in the log count in such steps; shorter waits are rounded away.",
                *removing(each),
            )


def _limits(conf: Conf) -> Iterator[Finding]:
    reported: list[int] = []
    for handover in conf.passes:
        for each in handover.level.effective("limit_req"):
            words = each.args
            if id(each) in reported or "nodelay" in words or not any(word.startswith("burst=") for word in words):
                continue
            reported.append(id(each))
            arguments = [word for word in words if not word.startswith("delay=")]
            text = written(Directive("limit_req", [*arguments, "nodelay"], ""))
            holder = handover.level.holder("limit_req") or handover.level
            yield Finding(
                "limit-delays",
                WARNING,
                holder.title,
                f"limit_req holds requests of {holder.title} back inside nginx.",
                "They wait before they are stamped: the wait counts as upload, not as queueing delay.",
                *replacing(each, text, holder),
            )


def _routes(conf: Conf) -> Iterator[Finding]:
    for level in (conf.http, *conf.levels):
        for each in level.own("set"):
            if each.args[:1] == ["$sojourn_route"] and len(each.args) > 1 and _RAW.search(each.args[1]):
                path = level.directive.args[-1] if level.directive.name == "location" and level.directive.args else "/"
                plain = re.match(r"[\w@./-]+", path.lstrip("^"))  # of an expression, what it begins with
                yield _raw_route(each, f"set $sojourn_route {plain[0] if plain else '/'};", level)
    maps = [each for each in conf.http.own("map") if each.args[-1:] == ["$sojourn_route"]]
    if maps and any(_RAW.search(entry.args[0]) for entry in maps[-1].block if entry.args):
        yield _raw_route(maps[-1], route_map(location_paths(conf)), conf.http)


def _raw_route(each: Directive, text: str, level: Level) -> Finding:
    return Finding(
        "routes-many",
        WARNING,
        "$sojourn_route",
        "The route in the log is the raw path of each request.",
        "The number of routes is unbounded: figures by route are too fine, blame finds no culprit, and a store grows "
        "with every path.",
        *replacing(each, text, level),
    )


def location_paths(conf: Conf) -> list[str]:
    """Return the prefixes of the locations that hand requests to an app."""
    places = [each.level.directive for each in conf.passes]
    paths = [each.args[-1] for each in places if each.name == "location" and each.args]
    return [path for path in dict.fromkeys(paths) if re.fullmatch(r"/[\w./-]*", path) and path != "/"]


def route_map(paths: list[str]) -> str:
    """Return the map that names routes by these prefixes of the path."""
    lines = [f"{INDENT}~^{path.rstrip('/')}/ {path.rstrip('/')}/...;" for path in paths or ["/users"]]
    return "\n".join(["map $uri $sojourn_route {", f"{INDENT}default other;", f"{INDENT}/ /;", *lines, "}"])


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
        if limit < FEW_WAITING:
            diagnosis.findings.append(_small(port, limit, ports[port]))
        else:
            diagnosis.checked.append(f"{counted(limit, 'connection')} may wait for the app at port {port}")
    if len(limits) < len(ports) or not ports:
        diagnosis.unseen.append(UNSEEN)
    return diagnosis


def _ports(conf: Conf) -> dict[int, str]:
    """Return port -> the place that names it, for backends on this machine."""
    backends = [(each.args[0], each.where) for up in conf.upstreams.values() for each in up.all("server") if each.args]
    backends += [(each.target, each.directive.where) for each in conf.passes if each.target not in conf.upstreams]
    return {port: where for text, where in backends if (port := local_port(text)) is not None}


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
