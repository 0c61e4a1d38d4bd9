"""WebSocket connections through nginx: the rate of new connections at which queueing begins, and where.

Every case has an app and an nginx of its own. First some connections are made one after the other, which shows what
one costs, and then by users who never let the app rest, which shows the capacity; then the ramp; then all are held.
Everything is stopped before anything is worked out, because nginx logs a connection when it ends.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from sojourn_lab.errors import LabError
from sojourn_lab.experiments.stage import Stage
from sojourn_lab.experiments.websocket.figures import (
    cost_of,
    log_figures,
    stage_figures,
    unloaded_figures,
    void_reasons,
)
from sojourn_lab.experiments.websocket.front import check_room, most_connections, nginx_before, started_app
from sojourn_lab.experiments.websocket.k6 import connections_of, k6_command, k6_hold, k6_summary, why_k6_unavailable
from sojourn_lab.experiments.websocket.plan import Connection, ConnectionPlan, ConnectionSummary
from sojourn_lab.experiments.websocket.usage import UsageSampler, usage_between
from sojourn_lab.measure.listen import ListenSampler
from sojourn_lab.results.run_context import Outcome
from sojourn_lab.runtime.backends import Backend
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.runtime.process import group_members
from sojourn_lab.scenario.experiment_settings import Websocket

MARGIN = 30.0
"""Seconds that a generator may exceed its plan, to start, to drain a queue and to sum up."""

PROBING_USERS = 8
"""Users per app while its capacity is measured: while one of them closes and connects, others wait."""

SETTLED_IN = 0.25
"""Share of the sequential connections that is not counted, because caches fill."""


@dataclass(frozen=True)
class GeneratedConnections:
    """The result of a generator."""

    summary: ConnectionSummary
    connections: list[Connection]


@dataclass(frozen=True)
class Parts:
    """The servers and samplers of a case."""

    nginx: Nginx
    apps: list[Backend]
    usage: UsageSampler
    spin_up: float


def run_case(stage: Stage) -> Outcome:
    """Return the result of one case; LabError if it cannot run."""
    settings = stage.case.websocket
    if settings is None:
        raise LabError(f"case {stage.case.name} has no websocket")
    if settings.generator == "k6" and (reason := why_k6_unavailable()) is not None:
        raise LabError(reason)
    with contextlib.ExitStack() as stack:
        parts = _started(stage, settings, stack)
        unloaded = _unloaded(stage, settings, parts)
        capacity = unloaded.summary.capacity
        cost = cost_of(unloaded.connections, round(SETTLED_IN * len(unloaded.connections)))
        if cost is None or not capacity:
            errors = sorted({each.error for each in unloaded.connections if each.error is not None})
            raise LabError(
                f"no connection was answered before the ramp: {', '.join(errors) or 'without an error message'}"
            )
        plan = _ramp_plan(stage, settings, parts, capacity)
        connections = _ramp(stage, settings, plan, capacity)
        most = sum(most_connections(app) for app in parts.apps)
        before = time.monotonic()
        with stage.interrupts.shielded():
            stack.close()
    tear_down = time.monotonic() - before
    figures = {
        **stage_figures(settings, plan, connections.summary, connections.connections, capacity),
        "cost": cost,
        "held": most,
        "unloaded": unloaded_figures(unloaded.connections),
        "log": log_figures(stage.access_log, stage.name, connections.connections),
        **_usage_figures(parts.usage, parts.apps, connections.summary),
    }
    return Outcome(
        since=connections.summary.window.since,
        until=connections.summary.window.until,
        figures=figures,
        void=void_reasons(connections.summary, connections.connections, figures["response"]["p50"]),
        spin_up=parts.spin_up,
        tear_down=tear_down,
        client_log=stage.logs / "client.jsonl",
    )


def _started(stage: Stage, settings: Websocket, stack: contextlib.ExitStack) -> Parts:
    """Start the apps, nginx and the samplers; everything is stopped when the stack is closed."""
    stage.watcher.stage("starting nginx and the WebSocket apps")
    before = time.monotonic()
    shielded = stage.interrupts.shielded
    apps: list[Backend] = []
    for number in range(stage.topology.backends):
        with shielded():
            app = started_app(f"backend-{number + 1}", settings, stage.topology, stage.logs)
            stack.callback(app.process.stop)
            apps.append(app)
    for app in apps:
        app.wait_until_ready()
    with shielded():
        nginx = nginx_before(apps, stage.topology, stage.logs, stage.access_log)
        nginx.start()
        stack.callback(nginx.stop)
    ports = {"nginx": nginx.port, **{app.name: app.port for app in apps}}
    stack.enter_context(ListenSampler(stage.folder / "listen.jsonl", ports, keep=True))
    workers = [pid for pid in group_members(nginx.process.pid) if pid != nginx.process.pid]
    usage = UsageSampler({"nginx": workers, **{app.name: [app.process.pid] for app in apps}})
    stack.enter_context(usage)
    return Parts(nginx, apps, usage, time.monotonic() - before)


def _unloaded(stage: Stage, settings: Websocket, parts: Parts) -> GeneratedConnections:
    plan = ConnectionPlan(
        case=stage.name,
        url=f"{parts.nginx.url}/sync",
        seed=stage.seed,
        timeout=stage.scenario.timeout_of(stage.case),
        client_log=str(stage.logs / "unloaded.jsonl"),
        summary=str(stage.logs / "unloaded.summary.json"),
        sequential=settings.unloaded,
        users=PROBING_USERS * len(parts.apps),
        saturated=settings.probe,
    )
    # Slow as they may be, one after the other: none takes longer than a client waits.
    return _generated(stage, plan, "unloaded", settings.unloaded * plan.timeout + settings.probe)


def _ramp_plan(stage: Stage, settings: Websocket, parts: Parts, capacity: float) -> ConnectionPlan:
    rate = settings.rate if settings.rate is not None else (settings.offered_load or 1.0) * capacity
    ramp = stage.scenario.duration_of(stage.case)
    check_room(rate * ramp / 2.0, stage.topology.nginx_workers)
    return ConnectionPlan(
        case=stage.name,
        url=f"{parts.nginx.url}/sync",
        seed=stage.seed,
        timeout=stage.scenario.timeout_of(stage.case),
        client_log=str(stage.logs / "client.jsonl"),
        summary=str(stage.logs / "ramp.summary.json"),
        rate=rate,
        ramp=ramp,
        hold=settings.hold,
    )


def _ramp(stage: Stage, settings: Websocket, plan: ConnectionPlan, capacity: float) -> GeneratedConnections:
    expected = plan.ramp + plan.hold
    stage.watcher.case(stage.name, expected)
    if settings.generator == "k6":
        return _generated_by_k6(stage, plan, capacity)
    return _generated(stage, plan, "ramp", expected + plan.timeout)


def _generated(stage: Stage, plan: ConnectionPlan, name: str, patience: float) -> GeneratedConnections:
    path = stage.logs / f"{name}.plan.json"
    path.write_bytes(msgspec.json.encode(plan))
    command = [sys.executable, "-m", "sojourn_lab.experiments.websocket.generator", str(path)]
    stage.run_to_end(command, f"{name}.generator", patience, MARGIN, f"the load of case {stage.name} to end")
    return GeneratedConnections(
        msgspec.json.decode(Path(plan.summary).read_bytes(), type=ConnectionSummary),
        msgspec.json.Decoder(Connection).decode_lines(Path(plan.client_log).read_bytes()),
    )


def _generated_by_k6(stage: Stage, plan: ConnectionPlan, capacity: float) -> GeneratedConnections:
    console, summary = stage.logs / "k6.lines", stage.logs / "k6.summary.json"
    hold = k6_hold(plan, capacity)
    plan = msgspec.structs.replace(plan, url=plan.url.replace("http://", "ws://", 1))
    patience = plan.ramp + hold + plan.timeout
    command = k6_command(plan, hold, console, summary)
    stage.run_to_end(command, "k6", patience, MARGIN, f"the load of case {stage.name} to end")
    connections = connections_of(console, stage.name)
    encode = msgspec.json.Encoder().encode
    Path(plan.client_log).write_bytes(b"".join(encode(each) + b"\n" for each in connections))
    return GeneratedConnections(k6_summary(plan, hold, connections, summary), connections)


def _usage_figures(
    usage: UsageSampler, apps: Sequence[Backend], summary: ConnectionSummary
) -> dict[str, dict[str, dict[str, object]]]:
    """Return `ramp` and `stable`: usage of the busiest app and of nginx during the ramp, and after it.

    The stable stage begins when the last connection has its answer.
    """
    stages = {"ramp": (summary.window.since, summary.window.until), "stable": (summary.settled, summary.ended)}
    figures: dict[str, dict[str, dict[str, object]]] = {}
    for name, (since, until) in stages.items():
        of_apps = [usage_between(usage.samples[app.name], since, until) for app in apps]
        busiest = max(of_apps, key=lambda each: each["cpu_peak"] or 0.0)
        figures[name] = {"app": busiest, "nginx": usage_between(usage.samples["nginx"], since, until)}
    return figures
