"""A playbook: one change a step, kept or not by what was measured, whatever becomes of single steps."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sojourn_lab.errors import LabError, ScenarioError
from sojourn_lab.experiments.playbook.record import PlaybookRecord
from sojourn_lab.experiments.playbook.run import finished_playbook
from sojourn_lab.experiments.playbook.steps import (
    BASELINE,
    Better,
    Playbook,
    checked,
    find_playbook,
    playbook_from_raw,
    scenario_of,
    shipped_playbook_paths,
    toml_value,
)
from sojourn_lab.experiments.playbook.tables import comma_separated, markdown, plain_cell
from sojourn_lab.results.progress import Watcher
from sojourn_lab.results.run_folder import RunFolder
from sojourn_lab.results.run_schema import CaseResult, CriterionResult, Rows, Run, WindowTimes
from sojourn_lab.runtime.interrupts import Interrupts
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.scenario.schema import Scenario

CONSUMERS, CORES, CHANNEL = (f"cases.*.collector.{name}" for name in ("consumers", "cores", "channel"))
RAW: dict[str, Any] = {
    "name": "trial",
    "title": "A trial",
    "scenario": "collector",
    "case": "waits-one",
    "better": {"metric": "figures.throughput", "by": 0.1},
    "columns": [{"title": "events/s", "metric": "figures.throughput"}],
    "criteria": [{"name": "few errors", "metric": "figures.errors_per_s", "below": 0.05}],
    "steps": [
        {"name": "more cores", "set": {CORES: 2}},
        {"name": "two", "set": {CONSUMERS: 2}},
        {"name": "four", "set": {CONSUMERS: 4}},
    ],
}


def playbook(**more: Any) -> Playbook:
    return playbook_from_raw({**RAW, **more}, "trial.toml")


def written(folder: Path) -> PlaybookRecord:
    return msgspec.json.decode((folder / "playbook.json").read_bytes(), type=PlaybookRecord)


def result_of(scenario: Scenario, figures: dict[str, Any], *, void: str = "", fault: str = "") -> Run:
    """A run as it would be, had its one case these figures."""
    case = CaseResult(
        name=scenario.cases[0].name, service_time=0.0, load=None, warmup=0.0, duration=1.0,
        window=WindowTimes("2026-01-01T00:00:00.000000Z", "2026-01-01T00:00:01.000000Z"), client=None, listen=[],
        base=scenario.cases[0].name, figures=figures, void=[void] if void else [],
    )  # fmt: skip
    met = figures["errors_per_s"] < 0.05
    return Run(
        scenario=scenario, scale=1.0, started="2026-01-01T00:00:00.000000Z", finished="2026-01-01T00:00:01.000000Z",
        spin_up=0.5, tear_down=0.25, versions={}, cases=[case], rows=Rows(0, 0, 0), learned=[], void=bool(void),
        criteria=[CriterionResult("few errors", case.name, "figures.errors_per_s", "below 0.05", 0.0, met)],
        void_reasons=[void] if void else [], faults=[fault] if fault else [], passed=met,
    )  # fmt: skip


def by_the_law(scenario: Scenario, scale: float, folder: RunFolder, **_: Any) -> Run:
    """A collector as the law has it: cores do nothing, consumers do."""
    settings = scenario.cases[0].collector
    assert settings is not None
    done = min(settings.rate, 25.0 * settings.consumers)
    folder.finished()
    return result_of(scenario, {"throughput": done, "errors_per_s": settings.rate - done})


def made(folder: Path, playbook: Playbook, make_run: Any = by_the_law) -> PlaybookRecord:
    claimed = RunFolder.claimed(folder / "played")
    return finished_playbook(playbook, claimed, Interrupts(), Watcher(), make_run=make_run)


def test_a_change_is_kept_when_it_is_better_and_the_next_step_begins_there(tmp_path: Path) -> None:
    record = made(tmp_path, playbook(steps=[*RAW["steps"], {"name": "eight", "set": {CONSUMERS: 8}}]))
    assert [each.name for each in record.steps] == [BASELINE, "more cores", "two", "four", "eight"]
    assert [each.kept for each in record.steps] == [True, False, True, True, True]
    assert [each.start for each in record.steps] == [None, BASELINE, BASELINE, "two", "four"]
    assert [each.ratio for each in record.steps] == [None, 1.0, 2.0, 2.0, pytest.approx(1.4)]
    # The cores made no difference, so they are removed.
    assert record.steps[-1].settings == {CONSUMERS: 8}
    assert [each.met for each in record.steps] == [0, 0, 0, 0, 1]
    assert (record.found, record.passed) == ("eight", True)
    assert "collector.consumers = 8 (× 1.40)" in record.learned
    assert "Made no difference worth keeping: collector.cores = 2 (× 1.00)." in record.learned
    assert "The result meets every criterion." in record.learned


def test_a_step_may_say_where_it_starts_and_whether_it_is_kept(tmp_path: Path) -> None:
    steps = [
        {"name": "two", "set": {CONSUMERS: 2}, "keep": False},
        {"name": "cores", "set": {CORES: 2}, "keep": True},
        {"name": "both", "set": {CORES: 2}, "from": "two"},
    ]
    record = made(tmp_path, playbook(steps=steps))
    assert [each.kept for each in record.steps] == [True, False, True, False]
    assert [each.start for each in record.steps[1:]] == [BASELINE, BASELINE, "two"]
    assert record.steps[-1].settings == {CONSUMERS: 2, CORES: 2}
    assert (record.found, record.passed) == ("cores", False)


def test_a_step_that_fails_or_is_void_does_not_stop_the_others_and_is_not_kept(tmp_path: Path) -> None:
    calls: list[int] = []

    def faulty(scenario: Scenario, scale: float, folder: RunFolder, **reported: Any) -> Run:
        calls.append(len(calls))
        if calls[-1] == 1:
            raise LabError("nginx does not start")
        if calls[-1] == 2:
            raise ZeroDivisionError("a slip")
        if calls[-1] == 3:
            return result_of(scenario, {"throughput": 900.0, "errors_per_s": 0.0}, void="the generator was late")
        if calls[-1] == 4:
            return result_of(scenario, {"throughput": 900.0, "errors_per_s": 0.0}, fault="the report failed")
        return by_the_law(scenario, scale, folder, **reported)

    steps = [{"name": f"step {number}", "set": {CONSUMERS: 2}, "keep": True} for number in range(5)]
    record = made(tmp_path, playbook(steps=steps), faulty)
    assert [each.outcome for each in record.steps] == ["measured", "failed", "failed", "void", "failed", "measured"]
    assert [each.kept for each in record.steps] == [True, False, False, False, False, True]
    assert [each.ratio for each in record.steps] == [None, None, None, None, None, 2.0]
    assert record.steps[1].reason == "nginx does not start"
    assert record.steps[2].reason == "unexpected ZeroDivisionError: a slip"
    assert record.steps[3].reason == "the generator was late"
    assert "the run failed or is void: step 0, step 1, step 2, step 3." in record.learned
    assert "a slip" in (tmp_path / "played" / "02.partial" / "logs" / "lab.err").read_text()
    assert written(tmp_path / "played") == record


def test_writes_results_after_every_step(tmp_path: Path) -> None:
    def stopped(scenario: Scenario, scale: float, folder: RunFolder, **reported: Any) -> Run:
        if folder.final.name == "02":
            raise KeyboardInterrupt
        return by_the_law(scenario, scale, folder, **reported)

    with pytest.raises(KeyboardInterrupt):
        made(tmp_path, playbook(), stopped)
    record = written(tmp_path / "played.partial")
    assert [each.name for each in record.steps] == [BASELINE, "more cores"]
    assert not record.passed


def test_smaller_may_be_better() -> None:
    larger, smaller = Better("m", by=0.25), Better("m", "smaller", 0.25)
    assert [larger.ratio_suffices(ratio) for ratio in (1.24, 1.25, None)] == [False, True, False]
    assert [smaller.ratio_suffices(ratio) for ratio in (0.81, 0.8, None)] == [False, True, False]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"steps": [{"name": "both", "set": {CORES: 2, CONSUMERS: 2}}]}, "length <= 1"),
        ({"steps": [{"name": "none", "set": {}}]}, "length >= 1"),
        ({"steps": [{"name": "a", "set": {CORES: 2}, "from": "b"}]}, "'b', which does not come before it"),
        ({"steps": [{"name": "a", "set": {CORES: 2}}] * 2}, "two steps are named 'a'"),
        ({"steps": [{"name": "a", "set": {CORES: 2}, "kept": True}]}, "steps[0].kept: unknown key, did you mean keep?"),
    ],
)
def test_a_playbook_that_is_none_is_refused_with_a_reason(more: dict[str, Any], words: str) -> None:
    with pytest.raises(ScenarioError, match=r"^trial\.toml: ") as error:
        playbook(**more)
    assert words in str(error.value)


def test_every_step_is_read_before_the_first_is_run() -> None:
    with pytest.raises(ScenarioError, match=r"step 'typo': .*collector\.toml"):
        checked(playbook(steps=[{"name": "typo", "set": {"cases.*.collector.consumer": 2}}]))
    with pytest.raises(ScenarioError, match="no case 'missing'"):
        checked(playbook(case="missing"))


def test_a_step_measures_one_case_with_the_playbook_s_criteria() -> None:
    scenario, scale = scenario_of(playbook(duration=4.0, quick={"duration": 2.0}), {CONSUMERS: 3}, quick=True)
    assert [case.name for case in scenario.cases] == ["waits-one"]
    assert scenario.cases[0].collector is not None
    assert scenario.cases[0].collector.consumers == 3
    assert (scenario.duration, scale, scenario.contrasts) == (2.0, 1.0, [])
    assert [each.name for each in scenario.criteria] == ["few errors"]
    assert scenario_of(playbook(duration=4.0), {})[0].duration == 4.0


def test_values_are_written_as_toml_has_them() -> None:
    assert [toml_value(value) for value in (2, 0.5, True, 'a "b"\n')] == ["2", "0.5", "true", '"a \\"b\\"\\n"']
    with pytest.raises(ScenarioError):
        toml_value(float("nan"))


def test_no_cell_is_a_formula_and_numbers_stay_numbers(tmp_path: Path) -> None:
    name = '=HYPERLINK("http://x")|`a`\x1b[31m'
    record = made(tmp_path, playbook(steps=[{"name": name, "set": {CONSUMERS: 2}}], title="<b>T</b>"))
    rows = list(csv.reader(io.StringIO(comma_separated(record))))
    assert rows[2][0] == '\'=HYPERLINK("http://x")|`a`\\x1b[31m'
    head = dict(zip(rows[0], rows[2], strict=True))
    assert (head["events/s"], head["ratio"], head["kept"], head["outcome"]) == ("50.0", "2.0", "True", "measured")
    assert [plain_cell(value) for value in (-1.5, "-1.5", "-a", "@a", "+1", None)] == [
        "-1.5", "-1.5", "'-a", "'@a", "+1", "",
    ]  # fmt: skip
    page = markdown(record)
    assert "\\<b\\>T" in page
    assert "\\|\\`a\\`" in page
    assert "\x1b" not in page


def test_the_playbooks_that_come_with_the_lab_are_whole() -> None:
    paths = shipped_playbook_paths()
    assert [path.stem for path in paths] == ["collector"]
    for path in paths:
        result = find_playbook(path.stem)
        assert result.name == path.stem
        checked(result)
        checked(result, quick=True)


def ran(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sojourn_lab", "playbook", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)


def test_the_command_refuses_what_it_does_not_know() -> None:
    unknown = ran("nothing-of-the-kind")
    assert unknown.returncode == 2
    assert unknown.stderr == "sojourn lab: there is no playbook 'nothing-of-the-kind'; there are: collector\n"


@pytest.mark.scenario
def test_a_playbook_runs_unattended(tmp_path: Path) -> None:
    if (reason := Nginx.why_unavailable()) is not None:
        pytest.skip(reason)
    text = (
        f'name = "trial"\ntitle = "A trial"\nscenario = "collector"\ncase = "waits-one"\nduration = 1.5\n'
        f'[better]\nmetric = "figures.throughput"\nby = 0.3\n'
        f'[[columns]]\ntitle = "events/s"\nmetric = "figures.throughput"\n'
        f'[[criteria]]\nname = "nothing lost"\nmetric = "figures.lost"\nequals = 0.0\n'
        f'[[steps]]\nname = "a channel"\nset = {{"{CHANNEL}" = 10}}\n'
        f'[[steps]]\nname = "three"\nset = {{"{CONSUMERS}" = 3}}\n'
    )
    path = tmp_path / "trial.toml"
    path.write_text(text)
    for attempt in range(3):
        out = tmp_path / f"played-{attempt}"
        done = ran(str(path), "--out", str(out), "--json")
        assert "Traceback" not in done.stderr
        record = json.loads(done.stdout)
        if all(step["outcome"] == "measured" for step in record["steps"]):
            break
    assert [step["outcome"] for step in record["steps"]] == ["measured"] * 3, record["steps"]
    assert [step["kept"] for step in record["steps"]] == [True, False, True]
    assert record["steps"][2]["ratio"] == pytest.approx(3.0, rel=0.2)
    assert record["steps"][2]["settings"] == {CONSUMERS: 3}
    assert done.returncode == 0
    assert all(step["spin_up"] > 0.0 for step in record["steps"])
    assert (out / record["steps"][1]["run"] / "run.json").is_file()
    assert msgspec.json.decode((out / "playbook.json").read_bytes())["found"] == "three"
    assert len((out / "playbook.csv").read_text().splitlines()) == 4
    assert "| three |" in (out / "playbook.md").read_text()
