"""One case of gRPC calls: servers, nginx if it balances them, and the client."""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path

import msgspec

from sojourn_lab.errors import LabError
from sojourn_lab.experiments.grpc.figures import case_figures
from sojourn_lab.experiments.grpc.plan import GrpcPlan
from sojourn_lab.experiments.grpc.servers import GrpcServer, started_server
from sojourn_lab.experiments.stage import Stage
from sojourn_lab.load.generator.program import announced
from sojourn_lab.load.plan import ClientRecord, Plan, Summary
from sojourn_lab.results.run_context import Outcome
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.runtime.proxy import BALANCER_LINES, Upstreams
from sojourn_lab.scenario.experiment_settings import Grpc
from sojourn_lab.scenario.load import PoissonLoad
from sojourn_lab.scenario.topology import Topology

MARGIN = 30.0
"""Seconds the client may take beyond its load and the last call's patience."""

IDLE_CONNECTIONS = 64
"""Idle connections to the backends that each worker of nginx keeps: calls of all clients share them."""


def run_case(stage: Stage) -> Outcome:
    """Return the result of a case of gRPC calls; LabError if it cannot run."""
    settings = stage.case.grpc
    if settings is None:
        raise LabError(f"case {stage.case.name} has no gRPC settings")
    if settings.balanced == "call" and (reason := Nginx.why_unavailable()) is not None:
        raise LabError(reason)
    for action in stage.case.actions:
        if action.do != "add_backend":
            raise LabError(f"case {stage.case.name}: a case of gRPC calls knows the action add_backend only")
    plan = _plan(stage, settings)
    topology = stage.topology
    with contextlib.ExitStack() as stack:
        begun = time.monotonic()
        servers = _servers(stage, stack)
        addresses = [each.ready_address() for each in servers]
        upstreams = Upstreams(own=addresses[: topology.backends], standby=addresses[topology.backends :])
        nginx = _nginx(stage, stack, upstreams) if settings.balanced == "call" else None
        spin_up = time.monotonic() - begun
        at = _offered(stage, plan, settings, upstreams, nginx)
        stopping = time.monotonic()
        with stage.interrupts.shielded():
            stack.close()
        tear_down = time.monotonic() - stopping
    summary = msgspec.json.decode(Path(plan.summary).read_bytes(), type=Summary)
    records = msgspec.json.Decoder(ClientRecord).decode_lines(Path(plan.client_log).read_bytes())
    calls = {server.name: server.calls() for server in servers}
    return Outcome(
        since=summary.window.since,
        until=summary.window.until,
        figures=case_figures(records, calls, summary, workers=topology.workers, at=at),
        void=summary.void,
        spin_up=spin_up,
        tear_down=tear_down,
        client_log=Path(plan.client_log),
    )


def _plan(stage: Stage, settings: Grpc) -> Plan:
    plan = stage.plan(PoissonLoad(settings.rate), settings.service_time, settings.distribution)
    return msgspec.structs.replace(plan, started=str(stage.logs / "started"))


def _servers(stage: Stage, stack: contextlib.ExitStack) -> list[GrpcServer]:
    topology = stage.topology
    count = topology.backends + topology.standby
    factors = [*topology.slowdown, *[1.0] * count]
    servers = []
    for number in range(count):
        with stage.interrupts.shielded():
            server = started_server(f"backend-{number + 1}", topology.workers, factors[number], stage.logs)
            stack.callback(server.process.stop)
        servers.append(server)
    return servers


def _nginx(stage: Stage, stack: contextlib.ExitStack, upstreams: Upstreams) -> Nginx:
    topology = stage.topology
    with stage.interrupts.shielded():
        nginx = Nginx(
            stage.logs,
            server_text(topology),
            access_log=stage.access_log,
            http=http_text(topology, upstreams),
            workers=topology.nginx_workers,
            http2=True,
        )
        nginx.start()
        stack.callback(nginx.stop)
    return nginx


def _offered(stage: Stage, plan: Plan, settings: Grpc, upstreams: Upstreams, nginx: Nginx | None) -> float | None:
    """Return when the first backend was added (unix s), None where none was, once all calls have ended.

    Existing connections do not use an added backend: balancing is per connection, and they are not notified.
    """
    addresses = upstreams.own if nginx is None else [f"127.0.0.1:{nginx.port}"]
    path = stage.logs / "plan.json"
    path.write_bytes(msgspec.json.encode(GrpcPlan(plan, addresses, settings.channels)))
    command = [sys.executable, "-m", "sojourn_lab.experiments.grpc.client", str(path)]
    due = sorted(stage.case.actions, key=lambda action: action.at)
    added: list[float] = []
    behind = upstreams

    def perform_due_actions() -> None:
        nonlocal behind
        while due and (since := announced(plan)) is not None and time.time() >= since + due[0].at:
            action = due.pop(0)
            behind = behind.after(action)
            added.append(since + action.at)
            if nginx is not None:
                nginx.reconfigure(server_text(stage.topology), http_text(stage.topology, behind))

    stage.run_to_end(
        command,
        "client",
        plan.warmup + plan.duration,
        plan.timeout + MARGIN,
        f"the calls of case {stage.name} to end",
        meanwhile=perform_due_actions,
    )
    return added[0] if added else None


def http_text(topology: Topology, upstreams: Upstreams) -> str:
    """Return the http level of nginx: the backends, and the case in each row of the log."""
    servers = "\n        ".join(f"server {address};" for address in upstreams.own)
    return f"""
    map $http_x_lab_case $sojourn_service {{
        default $http_x_lab_case;
    }}

    upstream lab_backends {{
        zone lab_backends 256k;
        {BALANCER_LINES[topology.balancer]}
        {servers}
        keepalive {IDLE_CONNECTIONS};
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
