"""A run from beginning to end: start, measure each case, stop, work out, write, rename."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from sojourn_lab.analyses.data import CaseData, case_figures
from sojourn_lab.contrasts import contrast_results
from sojourn_lab.criteria import expected_voids, judged_criteria
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
from sojourn_lab.external import ExternalRuntime
from sojourn_lab.interrupts import Interrupts
from sojourn_lab.kinds.stage import Outcome, Stage, experiment_of
from sojourn_lab.laws import law_of, warmup_of
from sojourn_lab.learned import lessons_of
from sojourn_lab.pictures import write_pictures
from sojourn_lab.plan import Plan, Summary, Window
from sojourn_lab.predictions import prediction_results
from sojourn_lab.progress import Watcher
from sojourn_lab.report import write_report
from sojourn_lab.results import case_split, logged, run_requests, write_parquet
from sojourn_lab.run_folder import RunFolder, concatenated
from sojourn_lab.runtime import Runtime, RuntimeMaker, process_runtime
from sojourn_lab.scenario import Case, Scenario
from sojourn_lab.versions import versions_here

if TYPE_CHECKING:
    from sojourn import Requests

GENERATOR_MARGIN = 30.0
"""Seconds a generator may take beyond warm-up, duration and the last timeout, to start and to sum up."""


@dataclass(frozen=True)
class Planned:
    """One case of one round: `name` is what the log calls it, `number` its place among the scenario's cases."""

    case: Case
    number: int
    round: int
    name: str


@dataclass(frozen=True)
class Measured:
    """One case of one round as it was measured, before anything was worked out.

    `plan` and `summary` are None, and `outcome` is not, for a case that is not requests through nginx.
    """

    planned: Planned
    window: Window
    plan: Plan | None = None
    summary: Summary | None = None
    outcome: Outcome | None = None

    @property
    def client_log(self) -> Path | None:
        """What the client intended, sent and got; None where nothing tells."""
        if self.outcome is not None:
            return self.outcome.client_log
        return Path(self.plan.client_log) if self.plan is not None else None


@dataclass
class Parts:
    """What a run is made of while it goes on."""

    scenario: Scenario
    folder: RunFolder
    interrupts: Interrupts
    watcher: Watcher
    make_runtime: RuntimeMaker
    runtimes: list[Runtime] = field(default_factory=list)
    measured: list[Measured] = field(default_factory=list)

    @property
    def external(self) -> bool:
        """Whether somebody else's servers were asked, of which nothing but the answers is known."""
        return any(runtime.kind == "external" for runtime in self.runtimes)

    @property
    def access_log(self) -> Path:
        """nginx's log of the whole run."""
        return self.folder.partial / "access.jsonl"

    @property
    def listen_log(self) -> Path:
        """The depth of every accept queue."""
        return self.folder.partial / "listen.jsonl"


def finished_run(
    scenario: Scenario,
    scale: float,
    folder: RunFolder,
    interrupts: Interrupts,
    watcher: Watcher,
    *,
    make_runtime: RuntimeMaker = process_runtime,
    changes: dict[str, Any] | None = None,
) -> Run:
    """Run a scenario (already scaled by `scale`), fill the folder, give it its final name, return the record.

    `changes` is what was set otherwise than in the scenario's file, for the record. Raises LabError when the run could
    not be made; the folder then keeps its temporary name and its logs.
    """
    started = time.time()
    parts = Parts(scenario, folder, interrupts, watcher, make_runtime)
    # Cases that follow one another on the same topology share its servers; another topology gets servers of its own,
    # and so does a case that changes its topology while it runs.
    for _, group in groupby(planned_cases(scenario), key=lambda each: servers_of(scenario, each)):
        members = list(group)
        if members[0].case.kind == "http":
            _measure_together(parts, members)
        else:
            parts.measured += [_other_kind(parts, each) for each in members]
    watcher.stage("working out the results")
    run = _worked_out(parts, scale=scale, started=started, changes=changes or {})
    (folder.partial / "run.json").write_bytes(run_bytes(run))
    folder.finished()
    return run


def planned_cases(scenario: Scenario) -> list[Planned]:
    """Return the cases in the order they are run: all of them, as often as the scenario says, round by round."""
    several = scenario.repeats > 1
    return [
        Planned(case, number, turn, f"{case.name}.r{turn}" if several else case.name)
        for turn in range(1, scenario.repeats + 1)
        for number, case in enumerate(scenario.cases)
    ]


def servers_of(scenario: Scenario, planned: Planned) -> tuple[Any, ...]:
    """Return what tells one set of running servers from another."""
    alone = (planned.round, planned.number) if planned.case.actions or planned.case.kind != "http" else ()
    return planned.case.kind, scenario.topology_of(planned.case), alone


def _measure_together(parts: Parts, members: list[Planned]) -> None:
    """Measure cases one after the other on the same servers."""
    topology = parts.scenario.topology_of(members[0].case)
    # Its own logs as well, apart from the first, which for most scenarios is the only one.
    first = not parts.runtimes
    logs = parts.folder.logs if first else parts.folder.logs / f"topology-{len(parts.runtimes) + 1}"
    runtime = parts.make_runtime(
        topology, parts.folder.partial, logs, parts.interrupts, nginx_in=None if first else logs
    )
    parts.runtimes.append(runtime)
    parts.watcher.stage("starting nginx and the app servers")
    with runtime:
        for planned in members:
            parts.measured.append(_measured_case(parts, planned, runtime))
            parts.watcher.stage("letting the queues run empty")
            # An overload leaves work behind for longer than it lasted.
            lasted = parts.scenario.warmup + parts.scenario.duration_of(planned.case)
            runtime.settle(deadline=60.0 + topology.proxy_read_timeout + 4.0 * lasted)
        parts.watcher.stage("stopping nginx and the app servers")


def seeds_of(scenario: Scenario, planned: Planned) -> list[int]:
    """Return the seeds of a case: the same for cases with the same `seed`, different from round to round."""
    own = planned.number if planned.case.seed is None else planned.case.seed
    return [scenario.seed, own, *([planned.round] if scenario.repeats > 1 else [])]


def _measured_case(parts: Parts, planned: Planned, runtime: Runtime) -> Measured:
    scenario, case, logs = parts.scenario, planned.case, parts.folder.logs
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
    expected = plan.warmup + plan.duration
    parts.watcher.case(planned.name, expected)
    generator = runtime.started(generator_command(case, plan_path), f"{planned.name}.generator")
    before = time.monotonic()
    due = sorted(case.actions, key=lambda action: action.at)

    def ended() -> bool:
        parts.watcher.elapsed(min(time.monotonic() - before, expected))
        while due and (since := _started_at(plan)) is not None and time.time() >= since + due[0].at:
            runtime.perform(due.pop(0))
        return generator.exit_code() == 0

    patience = plan.timeout * (plan.retries.attempts if plan.retries is not None else 1)
    generator.wait_until(ended, expected + patience + GENERATOR_MARGIN, f"the load of case {planned.name} to end")
    summary = msgspec.json.decode(Path(plan.summary).read_bytes(), type=Summary)
    return Measured(planned, summary.window, plan, summary)


def generator_command(case: Case, plan: Path) -> list[str]:
    """Return what offers the case's load as the plan says."""
    module = {"own": "sojourn_lab.generator", "siege": "sojourn_lab.siege"}[case.generator]
    return [sys.executable, "-m", module, str(plan)]


def _started_at(plan: Plan) -> float | None:
    """Return when the measured window began or will begin, unix s; None as long as the generator has not said so."""
    try:
        return float(Path(plan.started or "").read_text())
    except (OSError, ValueError):
        return None


def _other_kind(parts: Parts, planned: Planned) -> Measured:
    scenario, case = parts.scenario, planned.case
    logs = parts.folder.logs / planned.name
    logs.mkdir()
    parts.watcher.case(planned.name, scenario.warmup + scenario.duration_of(case))
    stage = Stage(
        scenario=scenario,
        case=case,
        topology=scenario.topology_of(case),
        name=planned.name,
        seed=seeds_of(scenario, planned),
        folder=parts.folder.partial,
        logs=logs,
        access_log=parts.access_log,
        interrupts=parts.interrupts,
        watcher=parts.watcher,
    )
    outcome = experiment_of(case.kind)(stage)
    return Measured(planned, Window(outcome.since, outcome.until), outcome=outcome)


def _worked_out(parts: Parts, *, scale: float, started: float, changes: dict[str, Any]) -> Run:
    scenario, folder, measured = parts.scenario, parts.folder, parts.measured
    outcomes = [each.outcome for each in measured if each.outcome is not None]
    spans = folder.partial / "spans.jsonl"
    written = [each.spans for runtime in parts.runtimes for each in runtime.backends if each.spans is not None]
    client_logs = [each.client_log for each in measured if each.client_log is not None]
    rows = Rows(
        client=concatenated(client_logs, folder.partial / "client.jsonl"),
        access=_line_count(parts.access_log),
        spans=concatenated([*written, *(path for each in outcomes for path in each.spans)], spans),
    )
    span_files = [spans] if rows.spans else []
    faults: list[str] = []
    requests = None
    if rows.access:
        try:
            requests = run_requests(parts.access_log, span_files)
            write_parquet(requests, folder.partial / "requests.parquet")
        except LabError as error:
            faults.append(str(error))
    elif parts.runtimes and not parts.external:
        faults.append("nginx logged nothing: no request reached it")
    cases = [_case_result(parts, each, requests, span_files, faults) for each in measured]
    predictions = prediction_results(scenario.predictions, requests, faults)
    contrasts = contrast_results(scenario.contrasts, cases)
    expected = {case.name for case in scenario.cases if case.expect_void}
    void = [f"{case.name}: {reason}" for case in cases if case.base not in expected for reason in case.void]
    judged = judged_criteria(scenario.criteria, cases, predictions, contrasts) + expected_voids(expected, cases)
    spent = [(each.spin_up, each.tear_down) for each in parts.runtimes]
    spent += [(each.spin_up, each.tear_down) for each in outcomes]
    run = Run(
        scenario=scenario,
        scale=scale,
        started=iso_time(started),
        finished=iso_time(time.time()),
        spin_up=sum(up for up, _ in spent),
        tear_down=sum(down for _, down in spent),
        versions=versions_of(parts),
        cases=cases,
        criteria=judged,
        rows=rows,
        learned=lessons_of(scenario, cases, predictions, contrasts),
        void=bool(void),
        void_reasons=void,
        faults=faults,
        passed=not void and not faults and all(each.passed for each in judged),
        predictions=predictions,
        contrasts=contrasts,
        changes=changes,
        runtime=parts.runtimes[0].kind if parts.runtimes else "process",
    )
    for write in (write_pictures, partial(write_report, name=folder.final.name)):
        try:
            write(run, requests, folder.partial)
        except LabError as error:
            run.faults.append(str(error))
            run.passed = False
    return run


def versions_of(parts: Parts) -> dict[str, str]:
    """Return the versions of what took part; in containers of another system, theirs."""
    scenario = parts.scenario
    versions = versions_here({scenario.topology_of(case).server for case in scenario.cases})
    for runtime in parts.runtimes:
        versions |= runtime.versions
    return versions


def _case_result(
    parts: Parts, measured: Measured, requests: Requests | None, spans: list[Path], faults: list[str]
) -> CaseResult:
    scenario, planned, window = parts.scenario, measured.planned, measured.window
    case, topology = planned.case, parts.scenario.topology_of(planned.case)
    split = None
    if requests is not None and (case.kind == "http" or logged(requests, planned.name)):
        try:
            split = case_split(requests, planned.name, window.since, window.until)
        except LabError as error:
            faults.append(str(error))
    outcome, summary = measured.outcome, measured.summary
    figures = dict(outcome.figures) if outcome is not None else {}
    if requests is not None and measured.plan is not None and summary is not None:
        data = CaseData(
            scenario,
            case,
            topology,
            planned.name,
            window.since,
            window.until,
            parts.folder.partial,
            spans,
            requests,
            summary,
            Path(measured.plan.client_log),
        )
        figures |= _analysed(scenario, data, faults)
    return CaseResult(
        name=planned.name,
        service_time=case.mean_service_time,
        load=case.load,
        warmup=measured.plan.warmup if measured.plan is not None else scenario.warmup,
        duration=measured.plan.duration if measured.plan is not None else round(window.until - window.since, 6),
        window=WindowTimes(iso_time(window.since), iso_time(window.until)),
        client=summary,
        listen=deepest_queues(parts.listen_log, window.since, window.until),
        law=None if parts.external else law_of(case, topology),
        reference=next((each for each in scenario.reference if fnmatchcase(case.name, each.cases)), None),
        split=split,
        topology=None if parts.external else topology,
        base=case.name,
        round=planned.round,
        figures=figures,
        void=(summary.void if summary is not None else []) if outcome is None else outcome.void,
    )


def _analysed(scenario: Scenario, data: CaseData, faults: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in scenario.analyses:
        try:
            found[name] = case_figures(name, data)
        except Exception as error:  # whatever it is, the measurement is made and must not be lost to it
            faults.append(f"{name} of case {data.name} failed: {type(error).__name__}: {error}")
    return found


def deepest_queues(listen_log: Path, since: float, until: float) -> list[ListenDepth]:
    """Return, for every socket in listen.jsonl, the fullest it was between two unix instants."""
    found: dict[str, ListenDepth] = {}
    if not listen_log.exists():
        return []
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
    if not path.exists():
        return 0
    with path.open("rb") as lines:
        return sum(1 for _ in lines)
