"""Make the record, the files and the report of a run from its measured cases."""

from __future__ import annotations

import time
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from sojourn import Requests
from sojourn.model.formatting import counted

from sojourn_lab.errors import LabError
from sojourn_lab.measure.disturbance import what_to_do
from sojourn_lab.results.analyses.data import CaseData, case_figures
from sojourn_lab.results.analyses.recordings import Recordings
from sojourn_lab.results.app_times import app_times_of
from sojourn_lab.results.contrasts import contrast_results
from sojourn_lab.results.criteria import expected_voids, judged_criteria
from sojourn_lab.results.findings import lessons_of
from sojourn_lab.results.pictures import write_pictures
from sojourn_lab.results.predictions import prediction_results
from sojourn_lab.results.report import write_report
from sojourn_lab.results.requests import case_split, logged, run_requests, write_parquet
from sojourn_lab.results.run_context import Measured, RunContext
from sojourn_lab.results.run_folder import concatenated
from sojourn_lab.results.run_schema import CaseResult, ListenDepth, Rows, Run, TargetLog, WindowTimes, iso_time
from sojourn_lab.results.targets import client_records, logged_at_target, target_figures, target_sentences
from sojourn_lab.runtime.external import ExternalRuntime
from sojourn_lab.runtime.server_faults import server_faults
from sojourn_lab.runtime.versions import versions_here
from sojourn_lab.scenario.laws import law_of
from sojourn_lab.scenario.schema import Scenario


def run_record(context: RunContext, *, scale: float, started: float, changes: dict[str, Any]) -> Run:
    """Return the record of a run whose cases are measured; write its logs, Parquet, pictures and report.

    A failure of an analysis becomes one of the run's faults; the measurement is kept. `started` is in unix s.
    """
    scenario, folder, measured = context.scenario, context.folder, context.measured
    outcomes = [each.outcome for each in measured if each.outcome is not None]
    spans = folder.partial / "spans.jsonl"
    written = [each.spans for runtime in context.runtimes for each in runtime.backends if each.spans is not None]
    client_logs = [each.client_log for each in measured if each.client_log is not None]
    rows = Rows(
        client=concatenated(client_logs, folder.partial / "client.jsonl"),
        access=_line_count(context.access_log),
        spans=concatenated([*written, *(path for each in outcomes for path in each.spans)], spans),
    )
    span_files = [spans] if rows.spans else []
    faults = [each for runtime in context.runtimes for each in server_faults(runtime)]
    requests, log = _requests_of(context, rows, span_files, faults)
    recordings = Recordings(folder.partial, [name for each in context.captures for name in each.files])
    cases = [_case_result(context, each, requests, span_files, recordings, faults) for each in measured]
    predictions = prediction_results(scenario, requests, faults)
    contrasts = contrast_results(scenario.contrasts, cases)
    expected = {case.name for case in scenario.cases if case.expect_void}
    void = [f"{case.name}: {reason}" for case in cases if case.base not in expected for reason in case.void]
    disturbances = [case.disturbance for case in cases if case.void and case.disturbance is not None]
    judged = judged_criteria(scenario.criteria, cases, predictions, contrasts) + expected_voids(expected, cases)
    spent = [(each.spin_up, each.tear_down) for each in context.runtimes]
    spent += [(each.spin_up, each.tear_down) for each in outcomes]
    run = Run(
        scenario=scenario,
        scale=scale,
        started=iso_time(started),
        finished=iso_time(time.time()),
        spin_up=sum(up for up, _ in spent),
        tear_down=sum(down for _, down in spent),
        versions=versions_of(context),
        cases=cases,
        criteria=judged,
        rows=rows,
        learned=[*lessons_of(scenario, cases, predictions, contrasts), *target_sentences(log, cases)],
        void=bool(void),
        void_reasons=void,
        faults=faults,
        passed=not void and not faults and all(each.passed for each in judged),
        predictions=predictions,
        contrasts=contrasts,
        changes=changes,
        captures=context.captures,
        runtime=context.runtimes[0].kind if context.runtimes else "process",
        advice=what_to_do(disturbances) if void else "",
        log=log,
        first_try=context.first_try,
    )
    for write in (write_pictures, partial(write_report, name=folder.final.name, recordings=recordings)):
        try:
            write(run, requests, folder.partial)
        except LabError as error:
            run.faults.append(str(error))
            run.passed = False
    return run


def _requests_of(
    context: RunContext, rows: Rows, spans: list[Path], faults: list[str]
) -> tuple[Requests | None, TargetLog | None]:
    """Return the run's requests in nginx's log, or in that of the nginx in front of `--url`; write requests.parquet."""
    folder = context.folder
    external = next((each for each in context.runtimes if isinstance(each, ExternalRuntime)), None)
    requests, log = None, None
    try:
        if external is not None:
            requests, log = logged_at_target(external, context.measured, folder.logs)
        elif rows.access:
            requests = run_requests(context.access_log, spans)
        elif context.runtimes:
            faults.append("nginx logged no request: none reached it")
        if log is not None:
            rows.access = log.requests
        if requests is not None:
            write_parquet(requests, folder.partial / "requests.parquet")
    except LabError as error:
        faults.append(str(error))
    if log is not None and not log.requests:
        faults.append(
            f"{log.path} has no request of the run in {counted(log.lines, 'line')} that were written meanwhile"
        )
    return requests, log


def versions_of(context: RunContext) -> dict[str, str]:
    """Return the versions of the programs that took part; of containers, those inside them."""
    scenario = context.scenario
    versions = versions_here({scenario.topology_of(case).server for case in scenario.cases})
    for runtime in context.runtimes:
        versions |= runtime.versions
    return versions


def _case_result(
    context: RunContext,
    measured: Measured,
    requests: Requests | None,
    spans: list[Path],
    recordings: Recordings,
    faults: list[str],
) -> CaseResult:
    scenario, planned, window = context.scenario, measured.planned, measured.window
    case, topology = planned.case, context.scenario.topology_of(planned.case)
    split = None
    if requests is not None and (measured.plan is not None or logged(requests, planned.name)):
        try:
            split = case_split(requests, planned.name, window.since, window.until)
        except LabError as error:
            faults.append(str(error))
    outcome, summary = measured.outcome, measured.summary
    figures = dict(outcome.figures) if outcome is not None else {}
    if measured.plan is not None and len(measured.plan.targets) > 1:
        figures["targets"] = target_figures(client_records(measured), window)
    if requests is not None and measured.plan is not None and summary is not None:
        data = CaseData(
            scenario,
            case,
            topology,
            planned.name,
            window.since,
            window.until,
            context.folder.partial,
            spans,
            requests,
            summary,
            Path(measured.plan.client_log),
            recordings,
        )
        figures |= _analysed(scenario, data, faults)
    disturbed = [] if measured.disturbance is None else measured.disturbance.reasons()
    return CaseResult(
        name=planned.name,
        service_time=case.mean_service_time,
        load=case.load,
        warmup=measured.plan.warmup if measured.plan is not None else scenario.warmup,
        duration=measured.plan.duration if measured.plan is not None else round(window.until - window.since, 6),
        window=WindowTimes(iso_time(window.since), iso_time(window.until)),
        client=summary,
        listen=deepest_queues(context.listen_log, window.since, window.until),
        law=None if context.external else law_of(case, topology),
        reference=next((each for each in scenario.reference if fnmatchcase(case.name, each.cases)), None),
        split=split,
        topology=None if context.external else topology,
        base=case.name,
        round=planned.round,
        figures=figures,
        void=[
            *(summary.void if summary is not None else []),
            *(outcome.void if outcome is not None else []),
            *disturbed,
        ],
        disturbance=measured.disturbance,
        app_times=app_times_of(split) if context.external or topology.command is not None else None,
    )


def _analysed(scenario: Scenario, data: CaseData, faults: list[str]) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for name in scenario.analyses:
        try:
            figures[name] = case_figures(name, data)
        except Exception as error:  # the measurement is complete and must survive any failure of its analysis
            faults.append(f"{name} of case {data.name} failed: {type(error).__name__}: {error}")
    return figures


def deepest_queues(listen_log: Path, since: float, until: float) -> list[ListenDepth]:
    """Return the largest depth of every socket in listen.jsonl between two unix instants."""
    deepest: dict[str, ListenDepth] = {}
    if not listen_log.exists():
        return []
    with listen_log.open("rb") as lines:
        for line in lines:
            try:
                sample = msgspec.json.decode(line)
            except msgspec.DecodeError:
                continue  # cut off where the disk was full
            if "unavailable" in sample or not since <= sample["time"] < until:
                continue
            name = sample["socket"]
            of_socket = deepest.setdefault(name, ListenDepth(name, 0, sample["limit"], 0))
            of_socket.samples += 1
            of_socket.deepest = max(of_socket.deepest, sample["depth"])
    return list(deepest.values())


def _line_count(path: Path) -> int:
    if not path.exists():
        return 0
    with path.open("rb") as lines:
        return sum(1 for _ in lines)
