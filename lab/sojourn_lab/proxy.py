"""What the lab's nginx is told: who is behind it, which requests go where, and how many connections it may hold."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sojourn_lab.errors import LabError
from sojourn_lab.scenario import Action
from sojourn_lab.topology import Balancer, Topology

BALANCER_LINES: dict[Balancer, str] = {
    "round_robin": "",  # what nginx does when nothing is said
    "least_conn": "least_conn;",
    "random_two": "random two least_conn;",
}


@dataclass(frozen=True)
class Upstreams:
    """Who is behind nginx just now: addresses (`host:port`).

    Attributes:
        own: the backends. standby: those an action may add. pools: of the routes with a pool of their own.
        mirror_percent: of the requests that are copied; None: as the topology says.
    """

    own: list[str] = field(default_factory=list)
    standby: list[str] = field(default_factory=list)
    pools: dict[str, list[str]] = field(default_factory=dict)
    mirror_percent: float | None = None

    def after(self, action: Action) -> Upstreams:
        """Return who is behind nginx after the action; LabError where it cannot be done."""
        match action.do:
            case "add_backend":
                if not self.standby:
                    raise LabError("no backend stands by: the scenario's `standby` says how many do")
                return replace(self, own=[*self.own, self.standby[0]], standby=self.standby[1:])
            case "remove_backend":
                if len(self.own) < 2:
                    raise LabError("the last backend cannot be taken out")
                return replace(self, own=self.own[:-1], standby=[self.own[-1], *self.standby])
            case "mirror":
                return replace(self, mirror_percent=action.percent)


def http_text(topology: Topology, upstreams: Upstreams) -> str:
    """Return the http level of the lab's nginx: who the upstreams are, and that a row tells its case."""
    pools = "".join(upstream(topology, f"lab_pool_{name}", members) for name, members in upstreams.pools.items())
    routes = "".join(f"\n        {route} lab_pool_{pool.name};" for pool in topology.pools for route in pool.routes)
    return f"""
    # The generator names the case it is measuring; outside the lab a user maps $host or a constant here.
    map $http_x_lab_case $sojourn_service {{
        default $http_x_lab_case;
    }}

    # Which app servers a route goes to.
    map $arg_route $lab_upstream {{
        default lab_backends;{routes}
    }}

    # No keep-alive: a connection a request, as to the article's app servers.
{upstream(topology, "lab_backends", upstreams.own)}{pools}"""


def upstream(topology: Topology, name: str, members: list[str]) -> str:
    """Return an upstream block. What workers of nginx must agree on, connections under way, is kept in a zone."""
    cap = f" max_conns={topology.connection_cap}" if topology.connection_cap is not None else ""
    servers = "\n        ".join(f"server {address}{cap};" for address in members)
    return f"""
    upstream {name} {{
        zone {name} 256k;
        {BALANCER_LINES[topology.balancer]}
        {servers}
    }}
"""


def server_text(topology: Topology, upstreams: Upstreams) -> str:
    """Return the inside of the lab's server block; the times are nginx's, in milliseconds."""
    del upstreams
    return f"""
        location / {{
            include sojourn/sojourn_proxy.conf;
            # Lets client.jsonl name the row of the log, also for what never reached an app.
            add_header X-Request-ID $sojourn_request_id always;
            proxy_pass http://$lab_upstream;
            proxy_read_timeout {max(1, round(topology.proxy_read_timeout * 1000))}ms;
        }}
"""
