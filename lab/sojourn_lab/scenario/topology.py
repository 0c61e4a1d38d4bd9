"""The measured system: nginx, the app servers behind it, and their queueing discipline."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgspec
from sojourn.model.formatting import counted

from sojourn_lab.scenario.app_command import command_reasons
from sojourn_lab.scenario.load import NotNegative, Positive, scaled_seconds
from sojourn_lab.scenario.topology_parts import (
    Backends,
    Backlog,
    Connections,
    DeferAccept,
    Dependency,
    Keepalive,
    Limit,
    Masters,
    Mirror,
    Namespace,
    Pool,
    QueueRules,
    Threads,
    Workers,
)

Server = Literal["gunicorn", "unicorn", "queue", "puma", "php-fpm", "uwsgi", "uvicorn", "node", "go", "java", "tomcat"]
"""The app servers of the lab's own app."""
AnyServer = Literal[Server, "command"]
"""`command`: the user's own app, started by the topology's `command`."""
ReadyPath = Annotated[str, msgspec.Meta(pattern=r"^/[!-~]*$", max_length=2_000)]
Variables = dict[Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], str]
Balancer = Literal["round_robin", "least_conn", "random_two"]
Discipline = Literal["fifo", "lifo", "adaptive_lifo", "codel", "deadline", "adaptive_timeout"]


THREADED: tuple[AnyServer, ...] = ("gunicorn", "puma", "command")
"""Servers whose workers may have several threads."""
AWAITING: tuple[Server, ...] = ("uvicorn",)
"""Servers of one event loop whose app awaits for a part of each request: the loop serves others meanwhile."""
OWN_SOCKET: tuple[AnyServer, ...] = ("java", "tomcat", "command")
"""Servers that bind an address of their own, because they cannot inherit a listening socket."""
PYTHON: tuple[Server, ...] = ("gunicorn", "queue", "uwsgi")
"""Servers of the app in app.py, which can use the processor for its service time."""
STREAMING: tuple[Server, ...] = ("gunicorn", "unicorn", "queue", "puma", "php-fpm", "uwsgi")
"""Servers whose app can hold its worker while it sends a body, and after its answer."""
ASKING: tuple[Server, ...] = ("gunicorn", "queue")
"""Servers whose app can serve mirrored copies or call a tier behind it."""


class Topology(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """nginx in front of `backends` app servers; times in seconds.

    `server`: real app servers take requests first in, first out (`servers/table.py` lists them); `queue` is the lab's
    own server, which accepts at once and takes requests by a `discipline`. It has no `worker_timeout`: a thread cannot
    be killed. `workers`: requests that a backend serves at once: processes, threads or places. Workers of gunicorn and
    Puma have `threads`; with more than one, gunicorn's are of the class gthread. uvicorn has one event loop. Node has
    one in each of its `workers`; several are a cluster.

    `connections`: the app of uvicorn has a pool of so many connections, holds one of them for the whole service time
    of a request, and awaits; None: it has no pool, and holds the event loop for a part of the service time.

    `masters`: so many gunicorns listen on the port of each backend (SO_REUSEPORT), each with `workers` and a queue of
    its own. `max_requests`: a worker of gunicorn is replaced after so many requests, and the app takes `loading`
    seconds to load. `limit`: HAProxy in front of each backend lets so many requests pass at a time.

    `unix`: the app servers listen on Unix sockets. `keepalive`: how many idle connections to the app servers each
    worker of nginx keeps open (for FastCGI with `fastcgi_keep_conn`); None: it opens one for every request.

    `slowdown`: a factor on the service time for each backend (those not listed: 1). `standby`: more backends, which are
    started but get no requests until an action adds them. `connection_cap`: the most open connections of nginx to each
    backend; requests beyond fail. `pools` serve their routes instead of the `backends`.

    `plain_log`: nginx also writes plain.log, in its format `combined` with four variables appended and nothing of the
    app's: what a user has who changed nothing. `worker_log`: the apps write workers.jsonl: when each request held its
    worker; and no spans, which would say it, too.

    `defer_accept`: the app servers' sockets pass a connection to accept() only when its first data has arrived
    (TCP_DEFER_ACCEPT, whole seconds; unicorn sets 1 by default). `namespace`: everything runs in a separate network
    namespace; it needs root, or `unshare --map-current-user --net --keep-caps`.

    `command`: the user's own app in place of the lab's; `server` is then `command`. The lab fills its placeholders
    (`app_command.py` lists them), starts it without a shell, with the variables `env` beside those that it inherits, in
    the folder `cwd`, relative to the scenario's file. It is ready when `ready` is answered below 400, or without
    `ready` when its port accepts a connection, within `ready_within` seconds at any scale.
    """

    backends: Backends = 2
    server: AnyServer = "gunicorn"
    command: str | None = None
    env: Variables = {}
    cwd: str | None = None
    ready: ReadyPath | None = None
    ready_within: Positive = 30.0
    workers: Workers = 1
    threads: Threads = 1
    backlog: Backlog = 64
    unix: bool = False
    keepalive: Keepalive | None = None
    worker_timeout: Positive = 60.0
    proxy_read_timeout: Positive = 60.0
    balancer: Balancer = "round_robin"
    discipline: Discipline = "fifo"
    rules: QueueRules = QueueRules()
    nginx_workers: Annotated[int, msgspec.Meta(ge=1, le=64)] = 1
    slowdown: list[Positive] = []
    standby: Annotated[int, msgspec.Meta(ge=0, le=16)] = 0
    connection_cap: Annotated[int, msgspec.Meta(ge=1, le=65_535)] | None = None
    pools: list[Pool] = []
    dependency: Dependency | None = None
    mirror: Mirror | None = None
    plain_log: bool = False
    worker_log: bool = False
    connections: Connections | None = None
    masters: Masters = 1
    max_requests: Limit | None = None
    loading: NotNegative = 0.0
    limit: Limit | None = None
    defer_accept: DeferAccept | None = None
    namespace: Namespace | None = None

    def __post_init__(self) -> None:
        if self.command is not None and self.server == "gunicorn":  # the default: no other server is set
            msgspec.structs.force_setattr(self, "server", "command")
        if reasons := list(self._reasons()):
            raise ValueError("\n".join(reasons))

    def _reasons(self) -> Iterator[str]:
        """Yield why the settings do not go together; nothing if they do."""
        if len(self.slowdown) > self.backends + self.standby:
            yield (
                f"{counted(len(self.slowdown), 'value')} of slowdown for "
                f"{counted(self.backends + self.standby, 'backend')}"
            )
        routes = [route for pool in self.pools for route in pool.routes]
        if len(set(routes)) < len(routes):
            yield "a route is in two of the `pools`: name it in one only"
        if self.server != "queue" and (self.discipline != "fifo" or self.rules != QueueRules()):
            yield f'a discipline and rules need server = "queue": {self.server} accepts connections first in, first out'
        if self.connections is not None and self.server not in AWAITING:
            yield f"`connections` needs an app that awaits: server {' or '.join(AWAITING)}"
        yield from self._reasons_of_command()
        yield from self._reasons_of_server()

    def _reasons_of_command(self) -> Iterator[str]:
        if self.command is None:
            settings = {"env": self.env, "cwd": self.cwd, "ready": self.ready, "server": self.server == "command"}
            for name in (name for name, value in settings.items() if value):
                yield f"`{name}` needs `command`" if name != "server" else 'server = "command" needs `command`'
        elif self.server != "command":
            yield f'`command` and server = "{self.server}" exclude each other: give one of them'
        else:
            yield from command_reasons(self.command, self.env, unix=self.unix)
            for name in ("pools", "slowdown"):
                if getattr(self, name):
                    yield f"`{name}` needs the lab's app: a `command` starts your own"

    def _reasons_of_server(self) -> Iterator[str]:
        """Yield the settings that this kind of app server does not have."""
        if self.threads > 1 and self.server not in THREADED:
            yield f"{self.server} has no threads in its workers: only {' and '.join(THREADED[:2])} have"
        if self.server in AWAITING and self.workers > 1:
            yield f"{self.server} has one event loop: use more backends in place of workers"
        if self.keepalive is not None and self.server == "uwsgi":
            yield "server uwsgi cannot have `keepalive`: its protocol has one request per connection"
        if self.unix and self.server in ("queue", "java", "tomcat"):
            yield f"{self.server} cannot listen on a Unix socket"
        if self.unix and (self.defer_accept is not None or self.namespace is not None):
            yield "`defer_accept` and `namespace` apply to TCP, not to `unix` sockets"
        if (self.masters > 1 or self.max_requests is not None) and self.server != "gunicorn":
            yield '`masters` and `max_requests` need server = "gunicorn"'
        if self.loading and self.server not in PYTHON:
            yield f"`loading` needs the Python app: server {' or '.join(PYTHON)}"
        if self.worker_log and self.server not in (*STREAMING, "node"):
            yield f"the app of server {self.server} writes no `worker_log`"
        if self.unix and (self.masters > 1 or self.limit is not None):
            yield "`masters` and `limit` apply to TCP, not to `unix` sockets"
        if self.limit is not None and self.server in ("php-fpm", "uwsgi"):
            yield f"HAProxy, the `limit`, does not speak the protocol of {self.server}"
        if self.defer_accept is not None and self.server in OWN_SOCKET:
            yield f"server {self.server} cannot have `defer_accept`: it binds its own socket"
        if (self.dependency is not None or self.mirror is not None) and self.server not in ASKING:
            yield f"server {self.server} cannot have a `dependency` or a `mirror`: use {' or '.join(ASKING)}"

    @property
    def served_at_once(self) -> int:
        """The number of requests that all backends together serve at once."""
        return self.backends * self.masters * self.workers * self.threads


class TopologyChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Differences of one case from the scenario's topology; None: no difference. `namespace` is replaced as a whole."""

    backends: Backends | None = None
    server: Server | None = None
    command: str | None = None
    env: Variables | None = None
    cwd: str | None = None
    ready: ReadyPath | None = None
    ready_within: Positive | None = None
    workers: Workers | None = None
    threads: Threads | None = None
    backlog: Backlog | None = None
    unix: bool | None = None
    keepalive: Keepalive | None = None
    balancer: Balancer | None = None
    discipline: Discipline | None = None
    rules: QueueRules | None = None
    proxy_read_timeout: Positive | None = None
    nginx_workers: Annotated[int, msgspec.Meta(ge=1, le=64)] | None = None
    slowdown: list[Positive] | None = None
    standby: Annotated[int, msgspec.Meta(ge=0, le=16)] | None = None
    connection_cap: Annotated[int, msgspec.Meta(ge=1, le=65_535)] | None = None
    pools: list[Pool] | None = None
    dependency: Dependency | None = None
    mirror: Mirror | None = None
    plain_log: bool | None = None
    worker_log: bool | None = None
    connections: Connections | None = None
    masters: Masters | None = None
    max_requests: Limit | None = None
    loading: NotNegative | None = None
    limit: Limit | None = None
    defer_accept: DeferAccept | None = None
    namespace: Namespace | None = None

    def applied_to(self, topology: Topology) -> Topology:
        """Return the topology with this change; ValueError if the result is not valid."""
        fields: dict[str, Any] = {name: getattr(self, name) for name in self.__struct_fields__}
        return changed(topology, **{name: value for name, value in fields.items() if value is not None})


def changed(topology: Topology, **values: Any) -> Topology:
    """Return the topology with other values; ValueError if the result is not valid."""
    fields = {name: getattr(topology, name) for name in topology.__struct_fields__}
    return Topology(**{**fields, **values})


def topology_with_time_scaled(topology: Topology, scale: float) -> Topology:
    """Return the topology with every duration multiplied by `scale`."""
    return changed(
        topology,
        worker_timeout=scaled_seconds(topology.worker_timeout, scale),
        proxy_read_timeout=scaled_seconds(topology.proxy_read_timeout, scale),
        loading=scaled_seconds(topology.loading, scale),
        rules=_scaled_rules(topology.rules, scale),
    )


def change_with_time_scaled(change: TopologyChange, scale: float) -> TopologyChange:
    """Return the change with every duration multiplied by `scale`."""
    patience, loading = change.proxy_read_timeout, change.loading
    return msgspec.structs.replace(
        change,
        rules=None if change.rules is None else _scaled_rules(change.rules, scale),
        proxy_read_timeout=None if patience is None else scaled_seconds(patience, scale),
        loading=None if loading is None else scaled_seconds(loading, scale),
    )


def _scaled_rules(rules: QueueRules, scale: float) -> QueueRules:
    if rules == QueueRules():
        return rules  # the default rules: the discipline uses none
    return msgspec.structs.replace(
        rules,
        deadline_margin=scaled_seconds(rules.deadline_margin, scale),
        codel_target=scaled_seconds(rules.codel_target, scale),
        codel_interval=scaled_seconds(rules.codel_interval, scale),
        calm_timeout=scaled_seconds(rules.calm_timeout, scale),
        busy_timeout=scaled_seconds(rules.busy_timeout, scale),
    )
