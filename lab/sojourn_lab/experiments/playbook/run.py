"""Run a playbook: each step is a run with its own folder, and one record has all results."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from functools import partial

from sojourn.model.formatting import counted

from sojourn_lab.errors import LabError
from sojourn_lab.experiments.playbook.record import PlaybookRecord, StepResult
from sojourn_lab.experiments.playbook.steps import BASELINE, Playbook, Step, scenario_of
from sojourn_lab.experiments.playbook.tables import written
from sojourn_lab.experiments.runner import finished_run
from sojourn_lab.results.criteria import by_base, median_at
from sojourn_lab.results.findings import formed
from sojourn_lab.results.progress import Watcher
from sojourn_lab.results.run_folder import RunFolder
from sojourn_lab.results.run_schema import Run, iso_time, seconds_between
from sojourn_lab.runtime.interrupts import Interrupts
from sojourn_lab.scenario.schema import Scenario


def finished_playbook(
    playbook: Playbook,
    folder: RunFolder,
    interrupts: Interrupts,
    watcher: Watcher,
    *,
    quick: bool = False,
    make_run: Callable[..., Run] = finished_run,
) -> PlaybookRecord:
    """Run every step, whatever the outcome of earlier ones, and return the record; the folder gets its final name.

    What is known is written after every step: a playbook that was stopped leaves it in the folder's temporary name.
    """
    record = PlaybookRecord(playbook, quick, iso_time(time.time()))
    for number, step in enumerate([None, *playbook.steps]):
        result = _planned(record, step)
        own = RunFolder.claimed(folder.partial / f"{number:02d}")
        _run_step(record, result, own, partial(make_run, interrupts=interrupts, watcher=watcher))
        result.ratio = ratio_to_start(record, result)
        result.kept = starts_next_steps(playbook, step, result)
        record.steps.append(result)
        written(record, folder.partial)
    last = [each for each in record.steps if each.kept]
    record.found = last[-1].name if last else ""
    record.passed = bool(last) and last[-1].met == len(playbook.criteria)
    record.finished = iso_time(time.time())
    record.learned = lesson_of(record)
    written(record, folder.partial)
    folder.finished()
    return record


def _planned(record: PlaybookRecord, step: Step | None) -> StepResult:
    if step is None:
        return StepResult(BASELINE, "", {}, None, "failed")
    start = step.start or next((each.name for each in reversed(record.steps) if each.kept), BASELINE)
    before = next(each for each in record.steps if each.name == start)
    (key, value), *_ = step.set.items()
    change = f"{key.removeprefix('cases.*.')} = {value}"
    return StepResult(step.name, change, {**before.settings, **step.set}, start, "failed")


def _run_step(
    record: PlaybookRecord, result: StepResult, folder: RunFolder, make_run: Callable[[Scenario, float, RunFolder], Run]
) -> None:
    result.run = folder.final.name
    before = time.monotonic()
    try:
        scenario, scale = scenario_of(record.playbook, result.settings, quick=record.quick)
        run = make_run(scenario, scale, folder)
    except LabError as error:
        result.reason = str(error)
    except Exception as error:  # a mistake of the lab's own is no reason to leave the other steps unmade
        (folder.logs / "lab.err").write_text(traceback.format_exc())
        result.reason = f"unexpected {type(error).__name__}: {error}"
    else:
        measured(record.playbook, run, result)
    if not folder.final.exists():
        result.run = folder.partial.name
    result.seconds = time.monotonic() - before


def measured(playbook: Playbook, run: Run, result: StepResult) -> None:
    """Add the outcome and figures of a step's run to its result."""
    (rounds,) = by_base(run.cases).values()
    result.outcome = "void" if run.void else "failed" if run.faults else "measured"
    result.reason = "; ".join([*run.void_reasons, *run.faults])
    result.figures = {column.title: median_at(column.metric, rounds) for column in playbook.columns}
    result.better = median_at(playbook.better.metric, rounds)
    result.criteria = {each.name: each.passed for each in run.criteria}
    result.met = sum(result.criteria.values())
    result.spin_up, result.tear_down = run.spin_up, run.tear_down


def ratio_to_start(record: PlaybookRecord, result: StepResult) -> float | None:
    """Return the playbook's measure after the step over that before it; None without either."""
    before = next((each for each in record.steps if each.name == result.start), None)
    if before is None or not before.better or result.better is None:
        return None
    if not before.outcome == result.outcome == "measured":
        return None
    return result.better / before.better


def starts_next_steps(playbook: Playbook, step: Step | None, result: StepResult) -> bool:
    """Return whether later steps start from this one; failed and void steps are never kept."""
    if result.outcome != "measured":
        return False
    if step is None:
        return True
    return playbook.better.ratio_suffices(result.ratio) if step.keep == "if_better" else step.keep


def lesson_of(record: PlaybookRecord) -> str:
    """Return sentences on which changes helped, which did not, and whether the result suffices."""
    steps = record.steps[1:]
    helped = [f"{each.change} (× {formed(each.ratio, '.2f')})" for each in steps if each.kept]
    idle = [
        f"{each.change} (× {formed(each.ratio, '.2f')})"
        for each in steps
        if each.outcome == "measured" and not each.kept
    ]
    unknown = [each.name for each in steps if each.outcome != "measured"]
    took = sum(each.spin_up + each.tear_down for each in record.steps)
    whole = seconds_between(record.started, record.finished)
    sentences = [
        f"Kept: {'; '.join(helped)}." if helped else "Nothing was kept.",
        f"Made no difference worth keeping: {'; '.join(idle)}." if idle else "",
        f"Unknown, because the run failed or is void: {', '.join(unknown)}." if unknown else "",
        f"The result meets {'every criterion' if record.passed else 'not every criterion'}.",
        f"{counted(len(record.steps), 'run')} took {whole:.0f} s, of which {took:.0f} s to bring everything up and "
        f"down.",
    ]
    return " ".join(sentence for sentence in sentences if sentence)
