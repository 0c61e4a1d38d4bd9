"""A run from beginning to end: start, measure each case, stop, work out, write, rename."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from sojourn_lab.criteria import judged_criteria
from sojourn_lab.document import (
    CaseResult,
    ListenDepth,
    Rows,
    Run,
    WindowTimes,
    iso_time,
    run_bytes,
)
from sojourn_lab.errors import LabError
from sojourn_lab.interrupts import Interrupts
from sojourn_lab.laws import law_of, warmup_of
from sojourn_lab.learned import lessons_of
from sojourn_lab.plan import Plan, Summary
from sojourn_lab.predictions import prediction_results
from sojourn_lab.progress import Watcher
from sojourn_lab.results import case_split, run_requests, write_whole_run
from sojourn_lab.run_folder import RunFolder, concatenated
from sojourn_lab.runtime import ProcessRuntime
from sojourn_lab.scenario import Case, Scenario
from sojourn_lab.versions import versions_here

if TYPE_CHECKING:
    from sojourn import Requests

GENERATOR_MARGIN = 30.0
"""Seconds a generator may take beyond warm-up, duration and the last timeout, to start and to sum up."""


@dataclass(frozen=True)
class Measured:
    """One case as it was measured, before anything was worked out."""

    case: Case
    plan: Plan
    summary: Summary


def finished_run(scenario: Scenario, scale: float, folder: RunFolder, interrupts: Interrupts, watcher: Watcher) -> Run:
    """Run a scenario (already scaled by `scale`), fill the folder, give it its final name, return the record.

    Raises LabError when the run could not be made; the folder then keeps its temporary name and its logs.
    """
    started = time.time()
    runtimes: list[ProcessRuntime] = []
    measured: list[Measured] = []
    # Cases that follow one another on the same topology share its servers; another topology gets servers of its own.
    for topology, group in groupby(enumerate(scenario.cases), key=lambda case: scenario.topology_of(case[1])):
        # Its own logs as well, apart from the first, which for most scenarios is the only one.
        logs = folder.logs / f"topology-{len(runtimes) + 1}" if runtimes else folder.logs
        runtime = ProcessRuntime(topology, folder.partial, logs, interrupts, nginx_in=logs if runtimes else None)
        runtimes.append(runtime)
        watcher.stage("starting nginx and the app servers")
        with runtime:
            for number, case in group:
                measured.append(_measured_case(scenario, case, number, runtime=runtime, folder=folder, watcher=watcher))
                watcher.stage("letting the queues run empty")
                runtime.settle(deadline=60.0 + topology.proxy_read_timeout)
            watcher.stage("stopping nginx and the app servers")
    watcher.stage("working out the results")
    run = _worked_out(scenario, scale=scale, started=started, runtimes=runtimes, folder=folder, measured=measured)
    (folder.partial / "run.json").write_bytes(run_bytes(run))
    folder.finished()
    return run


def _measured_case(
    scenario: Scenario,
    case: Case,
    number: int,
    *,
    runtime: ProcessRuntime,
    folder: RunFolder,
    watcher: Watcher,
) -> Measured:
    plan = Plan(
        case=case.name,
        url=runtime.url,
        seed=[scenario.seed, number if case.seed is None else case.seed],
        load=case.load,
        service_time=case.mean_service_time,
        distribution=case.distribution,
        routes=case.routes,
        warmup=warmup_of(case, scenario.topology_of(case), scenario.warmup),
        duration=scenario.duration,
        timeout=scenario.timeout,
        client_log=str(folder.logs / f"{case.name}.client.jsonl"),
        summary=str(folder.logs / f"{case.name}.summary.json"),
    )
    plan_path = folder.logs / f"{case.name}.plan.json"
    plan_path.write_bytes(msgspec.json.encode(plan))
    expected = plan.warmup + plan.duration
    watcher.case(case.name, expected)
    command = [sys.executable, "-m", "sojourn_lab.generator", str(plan_path)]
    generator = runtime.started(command, f"{case.name}.generator")
    before = time.monotonic()

    def ended() -> bool:
        watcher.elapsed(min(time.monotonic() - before, expected))
        return generator.exit_code() == 0

    generator.wait_until(ended, expected + plan.timeout + GENERATOR_MARGIN, f"the load of case {case.name} to end")
    summary = msgspec.json.decode(Path(plan.summary).read_bytes(), type=Summary)
    return Measured(case, plan, summary)


def _worked_out(
    scenario: Scenario,
    *,
    scale: float,
    started: float,
    runtimes: list[ProcessRuntime],
    folder: RunFolder,
    measured: list[Measured],
) -> Run:
    access_log, listen_log = runtimes[0].access_log, runtimes[0].listen_log
    backends = [backend for runtime in runtimes for backend in runtime.backends]
    spans = folder.partial / "spans.jsonl"
    client_logs = [Path(each.plan.client_log) for each in measured]
    rows = Rows(
        client=concatenated(client_logs, folder.partial / "client.jsonl"),
        access=_line_count(access_log),
        spans=concatenated([each.spans for each in backends if each.spans is not None], spans),
    )
    span_files = [spans] if rows.spans else []
    faults: list[str] = []
    requests = None
    try:
        requests = run_requests(access_log, span_files)
        parquet, html = folder.partial / "requests.parquet", folder.partial / "report.html"
        write_whole_run(requests, parquet, html, title=scenario.title, run=folder.final.name)
    except LabError as error:
        faults.append(str(error))
    cases = [_case_result(scenario, each, listen_log, requests, faults) for each in measured]
    predictions = prediction_results(scenario.predictions, requests, faults)
    void = [f"{case.name}: {reason}" for case in cases for reason in case.client.void]
    judged = judged_criteria(scenario.criteria, cases, predictions)
    return Run(
        scenario=scenario,
        scale=scale,
        started=iso_time(started),
        finished=iso_time(time.time()),
        spin_up=sum(runtime.spin_up for runtime in runtimes),
        tear_down=sum(runtime.tear_down for runtime in runtimes),
        versions=versions_here(scenario.topology.server),
        cases=cases,
        criteria=judged,
        rows=rows,
        learned=lessons_of(scenario, cases, predictions),
        void=bool(void),
        void_reasons=void,
        faults=faults,
        passed=not void and not faults and all(each.passed for each in judged),
        predictions=predictions,
    )


def _case_result(
    scenario: Scenario, measured: Measured, listen_log: Path, requests: Requests | None, faults: list[str]
) -> CaseResult:
    case, summary = measured.case, measured.summary
    window = summary.window
    split = None
    if requests is not None:
        try:
            split = case_split(requests, case.name, window.since, window.until)
        except LabError as error:
            faults.append(str(error))
    return CaseResult(
        name=case.name,
        service_time=case.mean_service_time,
        load=case.load,
        warmup=measured.plan.warmup,
        duration=measured.plan.duration,
        window=WindowTimes(iso_time(window.since), iso_time(window.until)),
        client=summary,
        listen=deepest_queues(listen_log, window.since, window.until),
        law=law_of(case, scenario.topology_of(case)),
        reference=next((each for each in scenario.reference if fnmatchcase(case.name, each.cases)), None),
        split=split,
        topology=scenario.topology_of(case),
    )


def deepest_queues(listen_log: Path, since: float, until: float) -> list[ListenDepth]:
    """Return, for every socket in listen.jsonl, the fullest it was between two unix instants."""
    found: dict[str, ListenDepth] = {}
    with listen_log.open("rb") as lines:
        for line in lines:
            sample = msgspec.json.decode(line)
            if "unavailable" in sample or not since <= sample["time"] < until:
                continue
            name = sample["socket"]
            seen = found.setdefault(name, ListenDepth(name, 0, sample["limit"], 0))
            seen.samples += 1
            seen.deepest = max(seen.deepest, sample["depth"])
    return list(found.values())


def _line_count(path: Path) -> int:
    with path.open("rb") as lines:
        return sum(1 for _ in lines)
