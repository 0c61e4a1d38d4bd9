"""The configuration of nginx in its container."""

from __future__ import annotations

from sojourn_lab.runtime.compose.parts import (
    CONTROL_PORT,
    DARK,
    DARK_UPSTREAM,
    HTTP_PORT,
    LOGS,
    MAIN,
    AppService,
    Front,
    Parts,
)
from sojourn_lab.runtime.compose.project import FILES
from sojourn_lab.runtime.proxy import ANSWER_LOG, Upstreams, http_text, server_text

CONNECTIONS = 4096
DRAIN_S = 4


TRUSTED = "0.0.0.0/1 1;\n128.0.0.0/1 1;\n"
"""Trusted peers of a later tier's nginx, for trace and request id: only parts of the run can reach it."""


def nginx_text(front: Front, parts: Parts, upstreams: Upstreams) -> str:
    """Return nginx.conf with the http and server text of the process runtime; `upstreams` are the current ones."""
    temp = "\n    ".join(
        f"{name}_temp_path /tmp/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    # With a mirror the text of the proxy has this log already.
    own_answers = front.answers if front.topology.mirror is None else None
    answers = "" if own_answers is None else ANSWER_LOG.format(path=f"{LOGS}/{own_answers}")
    return f"""\
include /etc/nginx/modules-enabled/*.conf;
daemon off;
worker_processes {front.topology.nginx_workers};
worker_shutdown_timeout {DRAIN_S}s;
worker_rlimit_nofile {FILES};
pid /tmp/nginx.pid;
error_log {LOGS}/{front.name}.error.log notice;

events {{
    use epoll;
    worker_connections {CONNECTIONS};
}}

http {{
    server_tokens off;
    {temp}
    include sojourn/sojourn.conf;
    access_log {LOGS}/{front.log} sojourn;
{http_text(front.topology, upstreams)}{answers}{dark_upstream(upstreams)}
    server {{
        listen {HTTP_PORT};
{server_text(front.topology, upstreams)}
    }}
{control_server(parts) if front.name == MAIN else ""}}}
"""


def dark_upstream(upstreams: Upstreams) -> str:
    """Return the upstream that copies go to; empty without copies."""
    if upstreams.mirror is None:
        return ""
    return f"""
    upstream {DARK_UPSTREAM} {{
        server {DARK}:{HTTP_PORT};
    }}
"""


def control_server(parts: Parts) -> str:
    """Return the server at the second port, which reports idle workers to the lab: not logged, past every upstream."""
    return f"""
    server {{
        listen {CONTROL_PORT};
        access_log off;
        proxy_connect_timeout 2s;
{"".join(ready_location(app) for app in parts.apps)}
    }}
"""


def ready_location(app: AppService) -> str:
    """Return the location that queries whether one app server is idle."""
    return f"""
        location = /ready/{app.name} {{
            proxy_pass http://{app.address}/ready;
        }}
"""
