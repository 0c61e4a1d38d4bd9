"""The measured system: nginx, the app servers behind it, and their queueing discipline."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from sojourn.model.formatting import counted

from sojourn_lab.scenario.load import Name, NotNegative, Positive, RouteName, scaled_seconds

Server = Literal["gunicorn", "unicorn", "queue", "puma", "php-fpm", "uwsgi", "uvicorn", "node", "go", "java", "tomcat"]
Balancer = Literal["round_robin", "least_conn", "random_two"]
Discipline = Literal["fifo", "lifo", "adaptive_lifo", "codel", "deadline", "adaptive_timeout"]

Backends = Annotated[int, msgspec.Meta(ge=1, le=64)]
Workers = Annotated[int, msgspec.Meta(ge=1, le=64)]
Backlog = Annotated[int, msgspec.Meta(ge=1, le=65_535)]
DeferAccept = Annotated[int, msgspec.Meta(ge=1, le=60)]
Threads = Annotated[int, msgspec.Meta(ge=1, le=64)]
Keepalive = Annotated[int, msgspec.Meta(ge=1, le=1_024)]
Masters = Annotated[int, msgspec.Meta(ge=1, le=16)]
Limit = Annotated[int, msgspec.Meta(ge=1, le=65_535)]
Count = Annotated[int, msgspec.Meta(ge=0, le=65_535)]
Connections = Annotated[int, msgspec.Meta(ge=1, le=1_024)]
Retransmissions = Annotated[int, msgspec.Meta(ge=1, le=15)]


THREADED: tuple[Server, ...] = ("gunicorn", "puma")
"""Servers whose workers may have several threads."""
AWAITING: tuple[Server, ...] = ("uvicorn",)
"""Servers of one event loop whose app awaits for a part of each request: the loop serves others meanwhile."""
OWN_SOCKET: tuple[Server, ...] = ("java", "tomcat")
"""Servers that bind a port of their own, because they cannot inherit a listening socket."""
PYTHON: tuple[Server, ...] = ("gunicorn", "queue", "uwsgi")
"""Servers of the app in app.py, which can use the processor for its service time."""
STREAMING: tuple[Server, ...] = ("gunicorn", "unicorn", "queue", "puma", "php-fpm", "uwsgi")
"""Servers whose app can hold its worker while it sends a body, and after its answer."""
ASKING: tuple[Server, ...] = ("gunicorn", "queue")
"""Servers whose app can serve mirrored copies or call a tier behind it."""


class QueueRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of the disciplines, and the waiting places, of the server `queue`; times in seconds."""

    deadline_margin: NotNegative = 0.0
    codel_target: Positive = 0.005
    codel_interval: Positive = 0.1
    lifo_threshold: Annotated[int, msgspec.Meta(ge=0)] = 10
    calm_timeout: Positive = 0.1
    busy_timeout: Positive = 0.005
    capacity: Annotated[int, msgspec.Meta(ge=0)] | None = None


class Pool(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Separate app servers for some routes, of the same kind as the others."""

    name: Name
    routes: Annotated[list[RouteName], msgspec.Meta(min_length=1)]
    backends: Backends = 1
    workers: Workers = 1


class Dependency(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tier behind the app that all app servers share: its servers do the `dependency` work of the requests.

    `lock`: its workers hold one common lock while they work, so that only one works at a time. `slowdown`: a factor on
    the time that its work takes.
    """

    backends: Backends = 1
    workers: Workers = 1
    backlog: Backlog = 64
    lock: bool = False
    slowdown: Positive = 1.0


class Mirror(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Dark reads: nginx sends copies of `percent` of the requests to separate app servers and drops the answers.

    `slowdown` multiplies the service time of the copies; `differs`: the share of copies that get another answer.
    """

    percent: Annotated[float, msgspec.Meta(ge=0.0, le=100.0)]
    backends: Backends = 1
    workers: Workers = 1
    slowdown: Positive = 1.0
    differs: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)] = 0.0


class Namespace(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A network namespace for the run and its sysctls, by their last names; None: the kernel's default.

    None of them changes with `--scale`: the kernel's timers for a SYN are independent of service times.
    """

    somaxconn: Annotated[int, msgspec.Meta(ge=1, le=65_535)] | None = None
    tcp_abort_on_overflow: Literal[0, 1] | None = None
    tcp_max_syn_backlog: Count | None = None
    tcp_syn_linear_timeouts: Annotated[int, msgspec.Meta(ge=0, le=127)] | None = None
    tcp_syn_retries: Retransmissions | None = None
    tcp_synack_retries: Retransmissions | None = None
    tcp_syncookies: Literal[0, 1, 2] | None = None

    @property
    def sysctls(self) -> dict[str, int]:
        """The sysctls that are set, by their last names."""
        return {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not None}


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
    """

    backends: Backends = 2
    server: Server = "gunicorn"
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
        if len(self.slowdown) > self.backends + self.standby:
            raise ValueError(
                f"{counted(len(self.slowdown), 'value')} of slowdown for "
                f"{counted(self.backends + self.standby, 'backend')}"
            )
        routes = [route for pool in self.pools for route in pool.routes]
        if len(set(routes)) < len(routes):
            raise ValueError("a route is in two of the `pools`: name it in one only")
        if self.server != "queue" and (self.discipline != "fifo" or self.rules != QueueRules()):
            raise ValueError(
                f'a discipline and rules need server = "queue": {self.server} accepts connections first in, first out'
            )
        if self.connections is not None and self.server not in AWAITING:
            raise ValueError(f"`connections` needs an app that awaits: server {' or '.join(AWAITING)}")
        self._check_server()

    def _check_server(self) -> None:
        """Raise ValueError for settings that this kind of app server does not have."""
        if self.threads > 1 and self.server not in THREADED:
            raise ValueError(f"{self.server} has no threads in its workers: only {' and '.join(THREADED)} have")
        if self.server in AWAITING and self.workers > 1:
            raise ValueError(f"{self.server} has one event loop: use more backends in place of workers")
        if self.keepalive is not None and self.server == "uwsgi":
            raise ValueError("server uwsgi cannot have `keepalive`: its protocol has one request per connection")
        if self.unix and self.server in ("queue", *OWN_SOCKET):
            raise ValueError(f"{self.server} cannot listen on a Unix socket")
        if self.unix and (self.defer_accept is not None or self.namespace is not None):
            raise ValueError("`defer_accept` and `namespace` apply to TCP, not to `unix` sockets")
        if (self.masters > 1 or self.max_requests is not None) and self.server != "gunicorn":
            raise ValueError('`masters` and `max_requests` need server = "gunicorn"')
        if self.loading and self.server not in PYTHON:
            raise ValueError(f"`loading` needs the Python app: server {' or '.join(PYTHON)}")
        if self.worker_log and self.server not in (*STREAMING, "node"):
            raise ValueError(f"the app of server {self.server} writes no `worker_log`")
        if self.unix and (self.masters > 1 or self.limit is not None):
            raise ValueError("`masters` and `limit` apply to TCP, not to `unix` sockets")
        if self.limit is not None and self.server in ("php-fpm", "uwsgi"):
            raise ValueError(f"HAProxy, the `limit`, does not speak the protocol of {self.server}")
        if self.defer_accept is not None and self.server in OWN_SOCKET:
            raise ValueError(f"server {self.server} cannot have `defer_accept`: it binds its own socket")
        if (self.dependency is not None or self.mirror is not None) and self.server not in ASKING:
            raise ValueError(
                f"server {self.server} cannot have a `dependency` or a `mirror`: use {' or '.join(ASKING)}"
            )

    @property
    def served_at_once(self) -> int:
        """The number of requests that all backends together serve at once."""
        return self.backends * self.masters * self.workers * self.threads


class TopologyChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Differences of one case from the scenario's topology; None: no difference. `namespace` is replaced as a whole."""

    backends: Backends | None = None
    server: Server | None = None
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
