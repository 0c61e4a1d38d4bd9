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
from sojourn_lab.experiments.grpc.proxy import http_text, server_text
from sojourn_lab.experiments.grpc.servers import GrpcServer, started_server
from sojourn_lab.experiments.stage import Stage
from sojourn_lab.load.plan import ClientRecord, Plan, Summary
from sojourn_lab.results.run_context import Outcome
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.runtime.process import Process
from sojourn_lab.runtime.proxy import Upstreams
from sojourn_lab.scenario.experiment_settings import Grpc
from sojourn_lab.scenario.load import PoissonLoad

MARGIN = 30.0
"""Seconds the client may take beyond its load and the last call's patience."""


def measured_case(stage: Stage) -> Outcome:
    """Return the result of the case; LabError if it cannot run."""
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
        at = _offered(stage, stack, plan, settings, upstreams, nginx)
        stopping = time.monotonic()
        with stage.interrupts.shielded():
            stack.close()
        tear_down = time.monotonic() - stopping
    summary = msgspec.json.decode(Path(plan.summary).read_bytes(), type=Summary)
    decoder = msgspec.json.Decoder(ClientRecord)
    records = [decoder.decode(line) for line in Path(plan.client_log).read_bytes().splitlines()]
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


def _offered(
    stage: Stage, stack: contextlib.ExitStack, plan: Plan, settings: Grpc, upstreams: Upstreams, nginx: Nginx | None
) -> float | None:
    """Return when the first backend was added (unix s), None where none was, once all calls have ended.

    Existing connections do not use an added backend: balancing is per connection, and they are not notified.
    """
    addresses = upstreams.own if nginx is None else [f"127.0.0.1:{nginx.port}"]
    path = stage.logs / "plan.json"
    path.write_bytes(msgspec.json.encode(GrpcPlan(plan, addresses, settings.channels)))
    command = [sys.executable, "-m", "sojourn_lab.experiments.grpc.client", str(path)]
    with stage.interrupts.shielded():
        client = Process(command, name="client", folder=stage.logs)
        client.start()
        client.mark_as_load()
        stack.callback(client.stop)
    expected = plan.warmup + plan.duration
    before = time.monotonic()
    due = sorted(stage.case.actions, key=lambda action: action.at)
    added: list[float] = []
    behind = upstreams

    def ended() -> bool:
        nonlocal behind
        stage.watcher.elapsed(min(time.monotonic() - before, expected))
        while due and (since := _started_at(plan)) is not None and time.time() >= since + due[0].at:
            action = due.pop(0)
            behind = behind.after(action)
            added.append(since + action.at)
            if nginx is not None:
                nginx.reconfigure(server_text(stage.topology), http_text(stage.topology, behind))
        return client.exit_code() == 0

    client.wait_until(ended, expected + plan.timeout + MARGIN, f"the calls of case {stage.name} to end")
    return added[0] if added else None


def _started_at(plan: Plan) -> float | None:
    try:
        return float(Path(plan.started or "").read_text())
    except (OSError, ValueError):
        return None
