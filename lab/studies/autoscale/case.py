"""One case: start gunicorn, nginx and the exporter, offer the load, let the autoscaler follow, compute the figures."""

from __future__ import annotations

import contextlib
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from sojourn_lab.errors import LabError
from sojourn_lab.experiments.stage import Stage
from sojourn_lab.load.generator.loops import open_schedule
from sojourn_lab.load.on_request import offered
from sojourn_lab.load.plan import ClientRecord, Plan, Summary
from sojourn_lab.results.requests import queueing_delays, run_requests
from sojourn_lab.results.run_context import Outcome
from sojourn_lab.runtime.backends import started_backend
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.runtime.process import Process
from sojourn_lab.runtime.proxy import Upstreams, http_text, server_text
from sojourn_lab.scenario.experiment_settings import Autoscale
from sojourn_lab.scenario.load import ClosedLoad
from sojourn_lab.scenario.topology import changed

from studies.autoscale.figures import Needed, case_figures, waits_in
from studies.autoscale.loop import Loop
from studies.autoscale.oracle import Objective, window_edges, workers_needed
from studies.autoscale.policies import FixedPolicy
from studies.autoscale.second import LOCATION, await_end, second_figures, started_second
from studies.autoscale.signals import STATUS_LOCATION, STATUS_PATH
from studies.autoscale.simulation import simulate
from studies.autoscale.startup import startup_figures, startup_times
from studies.autoscale.workers import OWN_STARTUP, Workers, cores_per_worker, cpu_times

MARGIN = 30.0
"""Seconds that the generator may exceed its plan."""

START_SECONDS = 60.0

WINDOW_PERIODS = 2
"""Periods of the autoscaler in a window of the yardstick."""

CALIBRATION, CALIBRATION_WARMUP = 4.0, 1.0
"""Seconds for which the workers are kept busy to learn what one uses of a core, and before that."""

TIMELINE = "timeline.json"
"""In the logs of a case: its looks and its windows."""

LEAST_WINDOW, EVERY = 5.0, 1.0
"""Seconds: the shortest window of the exporter, and its shortest time between two computations of the gauges."""

MOST_UNLIMITED = 64
"""The most workers of the yardstick: it has no limits of its own."""


@dataclass(frozen=True)
class Servers:
    """What runs in a case."""

    workers: Workers
    nginx: Nginx
    spans: Path | None


def run_case(stage: Stage) -> Outcome:
    """Measure one case; LabError if that is not possible."""
    settings, load = stage.case.autoscale, stage.case.load
    if settings is None or load is None:
        raise LabError(f"case {stage.case.name} has no autoscaler or no load")
    if (stage.topology.server, stage.topology.backends, stage.topology.threads) != ("gunicorn", 1, 1):
        raise LabError(f"case {stage.case.name}: an autoscaler needs one backend of gunicorn, of one thread per worker")
    plan = stage.plan(load, stage.case.mean_service_time, stage.case.distribution)
    objective = Objective(settings.threshold, settings.share)
    instants, services = open_schedule(plan, np.random.default_rng(plan.seed))
    edges, needed = yardstick_of(plan, settings, instants, services)
    with contextlib.ExitStack() as stack:
        begun = time.monotonic()
        servers = _started(stage, stack, _first_workers(settings, needed))
        busy = _busy_cores(servers, stage) if settings.signal == "cpu_of_busy" else None
        target = settings.target if busy is None else settings.target * busy
        loop = Loop(
            settings,
            target,
            servers.workers,
            nginx=servers.nginx.url,
            exporter=_exporter(stage, stack, settings, servers.nginx.url + STATUS_PATH),
            service=stage.name,
        )
        spin_up = time.monotonic() - begun
        with loop:
            second = None
            if settings.beside is not None:
                second = started_second(stage, stack, plan, servers.nginx.url, settings.beside)
            _offer(stage, msgspec.structs.replace(plan, url=servers.nginx.url), loop)
            if second is not None:
                await_end(second, plan.timeout + MARGIN)
        loop.check()
        stopping = time.monotonic()
        with stage.interrupts.shielded():
            stack.close()
        tear_down = time.monotonic() - stopping
    summary = msgspec.json.decode(Path(plan.summary).read_bytes(), type=Summary)
    start = summary.window.since - plan.warmup
    yardstick = Needed([start + edge for edge in edges], needed)
    delays = queueing_delays(run_requests(stage.access_log, []), stage.name)
    records = msgspec.json.Decoder(ClientRecord).decode_lines(Path(plan.client_log).read_bytes())
    waits, unlogged = waits_in(records, delays, summary.window)
    figures, windows = case_figures(waits, loop.recorded, yardstick, objective)
    looks = [{**asdict(each), "time": each.time - summary.window.since} for each in loop.recorded.values]
    timeline = {"windows": windows, "looks": looks, "fixed": _fixed_line(plan, instants, services, needed, objective)}
    (stage.logs / TIMELINE).write_bytes(msgspec.json.encode(timeline) + b"\n")
    return Outcome(
        since=summary.window.since,
        until=summary.window.until,
        figures={
            **figures,
            "unlogged": unlogged,
            "busy_cores": busy,
            "target": target,
            **_client(summary),
            **second_figures(stage),
            "startup": startup_figures(startup_times(stage.access_log, stage.name, servers.workers.born)),
        },
        void=summary.void,
        spin_up=spin_up,
        tear_down=tear_down,
        client_log=Path(plan.client_log),
        spans=[] if servers.spans is None else [servers.spans],
    )


def yardstick_of(
    plan: Plan, settings: Autoscale, instants: NDArray[np.float64], services: NDArray[np.float64]
) -> tuple[list[float], list[int]]:
    """Return the edges of the windows, s after the start of the warm-up, and the fewest workers in each."""
    edges = window_edges(plan.warmup, plan.warmup + plan.duration, WINDOW_PERIODS * settings.period)
    objective = Objective(settings.threshold, settings.share)
    return edges, workers_needed(instants, services, edges, objective, MOST_UNLIMITED)


def _fixed_line(
    plan: Plan,
    instants: NDArray[np.float64],
    services: NDArray[np.float64],
    needed: Sequence[int],
    objective: Objective,
) -> list[dict[str, float]]:
    """Return the requests within the objective for each fixed number from the yardstick's mean to its maximum.

    The schedule is replayed, first come first served. Each has `workers` and `within_share`.
    """
    since, until = plan.warmup, plan.warmup + plan.duration
    line = []
    for workers in range(_fixed_mean(needed), max(needed) + 1):
        replayed = simulate(instants, services, FixedPolicy(workers), workers=workers, timeout=plan.timeout)
        line.append({
            "workers": float(workers),
            "within_share": replayed.within_share(objective.threshold, since, until),
        })  # fmt: skip
    return line


def _client(summary: Summary) -> dict[str, Any]:
    return {
        "client": {"offered": summary.offered, "failed": summary.failed, "errors": summary.errors},
        "generator": {"cpu": summary.cpu, "lag_p99": summary.schedule_lag.p99},
    }


def _fixed_mean(needed: Sequence[int]) -> int:
    return max(1, round(sum(needed) / len(needed)))


def _first_workers(settings: Autoscale, needed: list[int]) -> int:
    """Return the workers at the start: the minimum, or the yardstick's mean or maximum where they are fixed."""
    if settings.signal == "fixed_mean":
        return _fixed_mean(needed)
    return max(needed) if settings.signal == "fixed_peak" else settings.minimum


def _started(stage: Stage, stack: contextlib.ExitStack, workers: int) -> Servers:
    """Start gunicorn with so many workers and nginx in front of it; both stop when the stack is closed."""
    stage.watcher.stage("starting nginx and gunicorn")
    topology = changed(stage.topology, workers=workers)
    with stage.interrupts.shielded():
        loading = {"LAB_LOADING": repr(topology.loading)} if topology.loading else {}
        backend = started_backend("backend-1", topology, stage.logs, loading)
        stack.callback(backend.process.stop)
    backend.wait_until_ready()
    upstreams = Upstreams(own=[backend.address])
    second = LOCATION if stage.case.autoscale is not None and stage.case.autoscale.beside is not None else ""
    with stage.interrupts.shielded():
        nginx = Nginx(
            stage.logs,
            server_text(topology, upstreams) + STATUS_LOCATION + second,
            access_log=stage.access_log,
            http=http_text(topology, upstreams),
            workers=topology.nginx_workers,
        )
        nginx.start()
        stack.callback(nginx.stop)
    return Servers(Workers(backend.process, workers, topology.loading + OWN_STARTUP), nginx, backend.spans)


def _busy_cores(servers: Servers, stage: Stage) -> float:
    """Return the cores that a busy worker of this app uses, from as many users without think time as there are workers.

    Raises:
        LabError: the workers used no processor time.
    """
    stage.watcher.stage("measuring what a busy worker uses of a core")
    pids = servers.workers.live()
    load, service = ClosedLoad(len(pids)), stage.case.mean_service_time

    def offer(duration: float) -> None:
        offered(
            servers.nginx.url,
            load,
            name=f"{stage.name}.busy",
            service_time=service,
            duration=duration,
            timeout=stage.scenario.timeout_of(stage.case),
        )

    offer(CALIBRATION_WARMUP)
    before = cpu_times(pids, time.monotonic())
    offer(CALIBRATION)
    cores = cores_per_worker(before, cpu_times(pids, time.monotonic()))
    if not cores:
        raise LabError(f"case {stage.name}: the busy workers used no processor time, which cannot be a target")
    return cores


def exporter_options(settings: Autoscale, status: str, startup: float) -> list[str]:
    """Return the options of `sojourn export` for a case.

    Args:
        settings: signal, objective, window and stabilisation.
        status: URL of nginx's `stub_status`; only the signal that needs it gets it: nginx counts these requests, too.
        startup: seconds from the start of a worker until it is ready.
    """
    live = ["--status", status, "--hold", f"{settings.stabilisation:g}", "--startup", f"{startup:g}"]
    return [
        *("--objective", f"queueing_delay:p{100.0 * settings.gauge_share:g}={settings.threshold:g}"),
        *("--labels", "service"),
        *("--window", f"{max(settings.window, LEAST_WINDOW):g}"),
        *("--every", f"{EVERY:g}"),
        *(live if settings.signal == "workers_live" else []),
    ]


def _exporter(stage: Stage, stack: contextlib.ExitStack, settings: Autoscale, status: str) -> str:
    """Start `sojourn export` on the access log and return the URL of its metrics."""
    command = [
        *(sys.executable, "-m", "sojourn", "--no-config", "export", str(stage.access_log)),
        *("--listen", "127.0.0.1:0"),
        *exporter_options(settings, status, stage.topology.loading + OWN_STARTUP),
    ]
    with stage.interrupts.shielded():
        exporter = Process(command, name="exporter", folder=stage.logs)
        exporter.start()
        # No server: that it waits for a core delays no request.
        exporter.mark_as_load()
        stack.callback(exporter.stop)
    addresses: list[str] = []

    def listens() -> bool:
        addresses.extend(re.findall(r"http://\S+/metrics", exporter.err_path.read_text(errors="replace")))
        return bool(addresses)

    exporter.wait_until(listens, START_SECONDS, "the exporter to print its address")
    return addresses[0]


def _offer(stage: Stage, plan: Plan, loop: Loop) -> None:
    """Offer the load to its end."""
    path = stage.logs / "plan.json"
    path.write_bytes(msgspec.json.encode(plan))
    command = [sys.executable, "-m", "sojourn_lab.load.generator", str(path)]
    expected = plan.warmup + plan.duration
    stage.watcher.case(stage.name, expected)
    stage.run_to_end(
        command,
        "generator",
        expected,
        plan.timeout + MARGIN,
        f"the load of case {stage.name} to end",
        meanwhile=loop.check,
    )
