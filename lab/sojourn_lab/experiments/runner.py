"""A run from beginning to end: start, measure each case, stop, compute, write, rename."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec

from sojourn_lab.errors import LabError
from sojourn_lab.experiments.recording import recorded
from sojourn_lab.experiments.stage import Stage
from sojourn_lab.load.generator.program import announced
from sojourn_lab.load.plan import Plan, Summary, Target, Window
from sojourn_lab.measure.disturbance import Disturbance, DisturbanceSampler, requested_wait
from sojourn_lab.results.progress import Watcher
from sojourn_lab.results.run_context import Measured, Outcome, Planned, RunContext
from sojourn_lab.results.run_folder import RunFolder
from sojourn_lab.results.run_schema import Run, run_bytes
from sojourn_lab.runtime.external import ExternalRuntime
from sojourn_lab.runtime.half_open import load_scapy
from sojourn_lab.runtime.interrupts import Interrupts
from sojourn_lab.runtime.namespace import why_sysctls_missing
from sojourn_lab.runtime.process import server_groups
from sojourn_lab.runtime.runtime import ProcessRuntime, Runtime, RuntimeMaker
from sojourn_lab.runtime.servers.table import why_server_unavailable
from sojourn_lab.scenario.case import Case
from sojourn_lab.scenario.laws import warmup_of
from sojourn_lab.scenario.schema import Scenario
from sojourn_lab.scenario.topology import Topology

GENERATOR_MARGIN = 30.0
"""Seconds a generator may take beyond warm-up, duration and the last timeout, to start and to sum up."""


KINDS_OF_STUDIES: dict[str, Callable[[Stage], Outcome]] = {}
"""Kind of case -> function that runs one. A study in `lab/studies` adds its kind before it calls the commands."""


def finished_run(
    scenario: Scenario,
    scale: float,
    folder: RunFolder,
    interrupts: Interrupts,
    watcher: Watcher,
    *,
    make_runtime: RuntimeMaker = ProcessRuntime,
    changes: dict[str, Any] | None = None,
    first_try: list[str] | None = None,
) -> Run:
    """Run a scenario (already scaled by `scale`), fill the folder, give it its final name, return the record.

    For the record, `changes` is what was set otherwise than in the scenario's file, and `first_try` why a first run was
    void. Raises LabError when the run could not be made; the folder then keeps its temporary name and its logs.
    """
    started = time.time()
    context = RunContext(scenario, folder, interrupts, watcher, make_runtime, first_try or [])
    # Cases that follow one another on the same topology share its servers; another topology gets servers of its own,
    # and so does a case that changes its topology while it runs.
    for _, group in groupby(planned_cases(scenario), key=lambda each: servers_of(scenario, each)):
        members = list(group)
        case = members[0].case
        topology = scenario.topology_of(case)
        if (reason := why_server_missing(case) or why_skipped(topology)) is not None:
            context.measured += [_skipped(each, reason) for each in members]
        elif case.kind == "http":
            _measure_together(context, members)
        else:
            context.measured += [_other_kind(context, each) for each in members]
    watcher.stage("working out the results")
    from sojourn_lab.results.run_record import run_record  # noqa: PLC0415 - the analysis brings Polars

    run = run_record(context, scale=scale, started=started, changes=changes or {})
    (folder.partial / "run.json").write_bytes(run_bytes(run))
    folder.finished()
    return run


def planned_cases(scenario: Scenario) -> list[Planned]:
    """Return the cases in the order of the run, round by round, each as often as it is repeated."""
    rounds = [scenario.rounds_of(case) for case in scenario.cases]
    return [
        Planned(case, number, turn, scenario.name_in(case, turn))
        for turn in range(1, max(rounds) + 1)
        for number, case in enumerate(scenario.cases)
        if turn <= rounds[number]
    ]


def servers_of(scenario: Scenario, planned: Planned) -> tuple[Any, ...]:
    """Return the key of a set of running servers."""
    alone = (planned.round, planned.number) if planned.case.actions or planned.case.kind != "http" else ()
    return planned.case.kind, scenario.topology_of(planned.case), alone


def why_skipped(topology: Topology) -> str | None:
    """Return what this kernel lacks for a topology, None if nothing."""
    return None if topology.namespace is None else why_sysctls_missing(topology.namespace.sysctls)


def why_server_missing(case: Case) -> str | None:
    """Return why the app server of a case is missing; None if it is not, or if all cases use it.

    A scenario that compares servers goes without one; a scenario whose only server is missing is an error.
    """
    return None if case.topology.server is None else why_server_unavailable(case.topology.server)


def _skipped(planned: Planned, reason: str) -> Measured:
    now = time.time()
    return Measured(planned, Window(now, now), outcome=Outcome(now, now, {"skipped": reason}))


def _measure_together(context: RunContext, members: list[Planned]) -> None:
    """Measure cases one after the other on the same servers."""
    topology = context.scenario.topology_of(members[0].case)
    # Its own logs as well, apart from the first, which for most scenarios is the only one.
    first = not context.runtimes
    logs = context.folder.logs if first else context.folder.logs / f"topology-{len(context.runtimes) + 1}"
    runtime = context.make_runtime(
        topology, context.folder.partial, logs, context.interrupts, nginx_in=None if first else logs
    )
    context.runtimes.append(runtime)
    context.watcher.stage("starting nginx and the app servers")
    with runtime, recorded(context, topology, runtime):
        for planned in members:
            context.measured.append(_measured_case(context, planned, runtime))
            context.watcher.stage("letting the queues run empty")
            # An overload leaves work behind for longer than it lasted.
            lasted = context.scenario.warmup + context.scenario.duration_of(planned.case)
            runtime.settle(deadline=60.0 + topology.proxy_read_timeout + 4.0 * lasted)
        context.watcher.stage("stopping nginx and the app servers")


def seeds_of(scenario: Scenario, planned: Planned) -> list[int]:
    """Return the seeds of a case: the same for cases with the same `seed`, different from round to round.

    The first round of a case that is repeated has those of a case that is not.
    """
    own = planned.number if planned.case.seed is None else planned.case.seed
    return [scenario.seed, own, *([planned.round] if planned.round > 1 else [])]


def _measured_case(context: RunContext, planned: Planned, runtime: Runtime) -> Measured:
    scenario, case, logs = context.scenario, planned.case, context.folder.logs
    if case.load is None:
        raise LabError(f"case {case.name} has no load")
    plan = Plan(
        case=planned.name,
        url=runtime.url,
        seed=seeds_of(scenario, planned),
        load=case.load,
        service_time=case.mean_service_time,
        distribution=case.distribution,
        routes=case.routes,
        targets=[Target(runtime.url + path, path, share) for path, share in case.paths.items()],
        dependency=case.dependency,
        retries=case.retries if case.retries is not None else scenario.retries,
        local_ports=case.local_ports,
        warmup=warmup_of(case, scenario.topology_of(case), scenario.warmup),
        duration=scenario.duration_of(case),
        timeout=scenario.timeout_of(case),
        client_log=str(logs / f"{planned.name}.client.jsonl"),
        summary=str(logs / f"{planned.name}.summary.json"),
        started=str(logs / f"{planned.name}.started"),
    )
    if isinstance(runtime, ExternalRuntime):
        plan = runtime.planned(plan, scenario.warmup)
    plan_path = logs / f"{planned.name}.plan.json"
    plan_path.write_bytes(msgspec.json.encode(plan))
    if any(action.do == "half_open" for action in case.actions):
        load_scapy()
    expected = plan.warmup + plan.duration
    context.watcher.case(planned.name, expected)
    sampler = DisturbanceSampler(plan.duration, server_groups)
    generator = runtime.started(generator_command(case, plan_path), f"{planned.name}.generator")
    generator.mark_as_load()
    before = time.monotonic()
    due = sorted(case.actions, key=lambda action: action.at)

    def ended() -> bool:
        context.watcher.elapsed(min(time.monotonic() - before, expected))
        while due and (since := announced(plan)) is not None and time.time() >= since + due[0].at:
            runtime.perform(due.pop(0))
        return generator.exit_code() == 0

    patience = plan.timeout * (plan.retries.attempts if plan.retries is not None else 1)
    with sampler:
        generator.wait_until(ended, expected + patience + GENERATOR_MARGIN, f"the load of case {planned.name} to end")
    summary = msgspec.json.decode(Path(plan.summary).read_bytes(), type=Summary)
    if runtime.kind == "process":
        waiting = requested_wait(case, scenario.topology_of(case), summary.window, summary)
        disturbance = sampler.between(summary.window, waiting)
    else:
        disturbance = Disturbance(unknown=f"the servers are not processes of this lab ({runtime.kind})")
    return Measured(planned, summary.window, plan, summary, disturbance=disturbance)


def generator_command(case: Case, plan: Path) -> list[str]:
    """Return the command of the generator that offers the case's load."""
    module = {"own": "sojourn_lab.load.generator", "siege": "sojourn_lab.load.siege"}[case.generator]
    return [sys.executable, "-m", module, str(plan)]


def _other_kind(context: RunContext, planned: Planned) -> Measured:
    scenario, case = context.scenario, planned.case
    logs = context.folder.logs / planned.name
    logs.mkdir()
    context.watcher.case(planned.name, scenario.warmup + scenario.duration_of(case))
    stage = Stage(
        scenario=scenario,
        case=case,
        topology=scenario.topology_of(case),
        name=planned.name,
        seed=seeds_of(scenario, planned),
        folder=context.folder.partial,
        logs=logs,
        access_log=context.access_log,
        interrupts=context.interrupts,
        watcher=context.watcher,
    )
    with DisturbanceSampler(scenario.duration_of(case), server_groups) as sampler:
        outcome = experiment_of(case.kind)(stage)
    window = Window(outcome.since, outcome.until)
    disturbance = sampler.between(window, requested_wait(case, stage.topology, window))
    return Measured(planned, window, outcome=outcome, disturbance=disturbance)


def experiment_of(kind: str) -> Callable[[Stage], Outcome]:
    """Return the function that runs a case of this kind, imported on demand.

    Raises:
        LabError: the kind belongs to a study, which has a command of its own.
    """
    # Late: each brings packages that no other scenario needs.
    match kind:
        case "websocket":
            from sojourn_lab.experiments.websocket import run_case  # noqa: PLC0415
        case "grpc":
            from sojourn_lab.experiments.grpc.case import run_case  # noqa: PLC0415
        case "collector":
            from sojourn_lab.experiments.collector.case import run_case  # noqa: PLC0415
        case "pipeline":
            from sojourn_lab.experiments.pipeline import run_case  # noqa: PLC0415
        case _ if kind in KINDS_OF_STUDIES:
            return KINDS_OF_STUDIES[kind]
        case _:
            raise LabError(
                f"cases with `{kind}` belong to a study: run `PYTHONPATH=lab python -m studies.{kind}.measure` "
                "in a checkout of Sojourn"
            )
    return run_case
