"""Configuration of the lab's nginx: its upstreams, the routing of requests, and the limit of its connections."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sojourn.doctor.nginx_records import FULL

from sojourn_lab.errors import LabError
from sojourn_lab.runtime.servers.location import pass_lines
from sojourn_lab.runtime.servers.table import kind_of
from sojourn_lab.scenario.case import Action
from sojourn_lab.scenario.topology import Balancer, Topology

BALANCER_LINES: dict[Balancer, str] = {
    "round_robin": "",  # nginx's default
    "least_conn": "least_conn;",
    "random_two": "random two least_conn;",
}


ANSWER_LOG = """
    # The response of every request, for comparison with the responses of its copies.
    log_format lab_answers escape=json
        '{{"request_id":"$sojourn_request_id","status":"$status","answer":"$upstream_http_x_lab_answer"}}';
    access_log "{path}" lab_answers;
"""
"""For `str.format` with the `path` of the log."""


PLAIN_LOG_NAME = "plain.log"
PLAIN_LOG = """
    # What a user has who changed nothing: `combined` with four variables. The path holds no service time.
    map $arg_route $lab_path {{
        default $arg_route;
        "" {otherwise};
    }}
    log_format lab_plain '$remote_addr - $remote_user [$time_local] "$request_method $lab_path $server_protocol" '
        '$status $body_bytes_sent "$http_referer" "$http_user_agent" '
        '$request_time $upstream_response_time $upstream_addr $msec';
    access_log "{path}" lab_plain;
"""
"""For `str.format` with the `path` of the log and, for requests without a route, the path or variable `otherwise`."""


@dataclass(frozen=True)
class Upstreams:
    """The current upstreams of nginx: addresses (`host:port`).

    Attributes:
        own: the backends.
        standby: backends that an action may add.
        pools: route -> backends of its own pool.
        mirror: `host:port` of the nginx that gets copies of requests; None: there is none.
        mirror_percent: of the requests that are copied; None: as the topology says.
        answers: the log of responses, for comparison with copies; None: none.
        plain: the log without anything of the app's; None: none.
    """

    own: list[str] = field(default_factory=list)
    standby: list[str] = field(default_factory=list)
    pools: dict[str, list[str]] = field(default_factory=dict)
    mirror: str | None = None
    mirror_percent: float | None = None
    answers: str | None = None
    plain: str | None = None

    @property
    def all(self) -> set[str]:
        """Every address that nginx sends clients' requests to, or may after an action."""
        return {*self.own, *self.standby, *(each for members in self.pools.values() for each in members)}

    def after(self, action: Action) -> Upstreams:
        """Return the upstreams after the action; LabError if it is not possible."""
        match action.do:
            case "add_backend":
                if not self.standby:
                    raise LabError("no standby backend is left: the scenario's `standby` sets their number")
                return replace(self, own=[*self.own, self.standby[0]], standby=self.standby[1:])
            case "remove_backend":
                if len(self.own) < 2:
                    raise LabError("the last backend cannot be removed")
                return replace(self, own=self.own[:-1], standby=[self.own[-1], *self.standby])
            case "mirror":
                return replace(self, mirror_percent=action.percent)
            case "half_open":
                return self


def http_text(topology: Topology, upstreams: Upstreams) -> str:
    """Return the http level of the lab's nginx: the upstreams, and the case in each row of the log."""
    pools = "".join(upstream(topology, f"lab_pool_{name}", members) for name, members in upstreams.pools.items())
    return f"""
    # The generator names the case it is measuring; outside the lab a user maps $host or a constant here.
    map $http_x_lab_case $sojourn_service {{
        default $http_x_lab_case;
    }}

    # This log holds no visits, and the generator's queries are read from it: which attempts are of one request.
    map "" $sojourn_redact {{
        default off;
    }}

    # Every request is traced: the trace of the log is that of the spans.
    map "" $sojourn_trace {{
        default 01;
    }}
{upstream(topology, "lab_backends", upstreams.own)}{pools}{pool_map(topology)}{mirror_map(topology, upstreams)}\
{"" if upstreams.plain is None else _plain_log(topology, upstreams.plain)}"""


def _plain_log(topology: Topology, path: str) -> str:
    return PLAIN_LOG.format(path=path, otherwise="/sleep" if topology.command is None else "$uri")


def mirror_map(topology: Topology, upstreams: Upstreams) -> str:
    """Return the map that selects the requests to copy; empty without copies."""
    if topology.mirror is None or upstreams.mirror is None:
        return ""
    changed = upstreams.mirror_percent
    percent = topology.mirror.percent if changed is None else changed
    # nginx accepts percentages with two decimals, but not 0.
    share = f"{percent:.2f}% 1;" if percent >= 0.005 else ""
    log = "" if upstreams.answers is None else ANSWER_LOG.format(path=upstreams.answers)
    return f"""
    # The percentage of dark reads, by the request id; 0 is the kill switch.
    split_clients $sojourn_request_id $lab_dark {{
        {"* 1;" if percent >= 100.0 else f"{share} * 0;"}
    }}
{log}"""


def mirror_location(topology: Topology, upstreams: Upstreams) -> str:
    """Return the location that copies go through; empty without copies."""
    if topology.mirror is None or upstreams.mirror is None:
        return ""
    return f"""
        location = /lab-dark {{
            internal;
            if ($lab_dark = 0) {{
                return 204;
            }}
            # The nginx the copies go to stamps them itself; it keeps the request id, by which answers are compared.
            proxy_set_header X-Request-ID $sojourn_request_id;
            proxy_pass http://{upstreams.mirror}$request_uri;
            proxy_read_timeout {max(1, round(topology.proxy_read_timeout * 1000))}ms;
        }}
"""


def pool_map(topology: Topology) -> str:
    """Return the map from a route to the upstream of its pool; empty without pools."""
    if not topology.pools:
        return ""
    routes = "".join(f"\n        {route} lab_pool_{pool.name};" for pool in topology.pools for route in pool.routes)
    return f"""
    # Which app servers a route goes to.
    map $arg_route $lab_upstream {{
        default lab_backends;{routes}
    }}
"""


def upstream_name(topology: Topology) -> str:
    """Return the argument of `proxy_pass`: a variable, looked up per request, only if there are several upstreams."""
    return "$lab_upstream" if topology.pools else "lab_backends"


def upstream(topology: Topology, name: str, members: list[str]) -> str:
    """Return an upstream block. What workers of nginx must agree on, connections under way, is kept in a zone.

    Without `keepalive` every request has a connection of its own, as to the article's app servers.
    """
    keepalive = f"keepalive {topology.keepalive};" if topology.keepalive is not None else ""
    cap = f" max_conns={topology.connection_cap}" if topology.connection_cap is not None else ""
    servers = "\n        ".join(f"server {address}{cap};" for address in members)
    return f"""
    upstream {name} {{
        zone {name} 256k;
        {BALANCER_LINES[topology.balancer]}
        {servers}
        {keepalive}
    }}
"""


def server_text(topology: Topology, upstreams: Upstreams) -> str:
    """Return the inside of the lab's server block; the times are nginx's, in milliseconds."""
    kind = kind_of(topology)
    protocol = kind.protocol
    handed = pass_lines(protocol, upstream_name(topology), keepalive=topology.keepalive is not None)
    lines = "\n            ".join([FULL.include_line(protocol), *handed, *kind.lines])
    mirror = "mirror /lab-dark;" if topology.mirror is not None and upstreams.mirror is not None else ""
    return f"""
        location / {{
            {mirror}
            # Lets client.jsonl name the row of the log, also for what never reached an app.
            add_header X-Request-ID $sojourn_request_id always;
            {lines}
            {protocol}_read_timeout {max(1, round(topology.proxy_read_timeout * 1000))}ms;
        }}
{mirror_location(topology, upstreams)}"""
