"""Configuration of nginx where it balances gRPC calls: the same stamps and the same log as for plain requests."""

from __future__ import annotations

from sojourn_lab.runtime.proxy import BALANCER_LINES, Upstreams
from sojourn_lab.scenario.topology import Topology

KEPT = 64
"""Idle connections to the backends that each worker of nginx keeps: calls of all clients share them."""


def http_text(topology: Topology, upstreams: Upstreams) -> str:
    """Return the http level: the backends, and the case in each row of the log."""
    servers = "\n        ".join(f"server {address};" for address in upstreams.own)
    return f"""
    map $http_x_lab_case $sojourn_service {{
        default $http_x_lab_case;
    }}

    upstream lab_backends {{
        zone lab_backends 256k;
        {BALANCER_LINES[topology.balancer]}
        {servers}
        keepalive {KEPT};
    }}
"""


def server_text(topology: Topology) -> str:
    """Return the inside of the server block: gRPC calls to the backends, stamped."""
    return f"""
        location / {{
            grpc_pass grpc://lab_backends;
            grpc_read_timeout {max(1, round(topology.proxy_read_timeout * 1000))}ms;
            # A call that failed at one backend is not tried at another: that would be balancing, too.
            grpc_next_upstream off;
            include sojourn/sojourn_grpc.conf;
            add_header X-Request-ID $sojourn_request_id always;
        }}
"""
