"""Changes between two runs: settings by name, figures with their noise, and the verdict."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from lab_runs import recorded_run
from sojourn_lab.cli import app
from sojourn_lab.results.contrasts import interval_by_rounds
from sojourn_lab.results.runs.archive import selected
from sojourn_lab.results.runs.comparison import FigureChange, RunComparison, compared_runs
from sojourn_lab.results.runs.formatting import signed_percent, verdict
from sojourn_lab.results.runs.setup import alike, settings, setup_differences
from syrupy.assertion import SnapshotAssertion
from typer.testing import CliRunner

QUEUEING = "split.components.queueing_delay.mean"
SERVICE = "split.components.service_time.mean"


def comparison(a: Path, b: Path, **more: Any) -> RunComparison:
    return compared_runs(selected(str(a), a.parent), selected(str(b), b.parent), **more)


def figure(result: RunComparison, path: str) -> FigureChange:
    return next(each for each in result.figures if each.path == path)


def test_verdict_names_the_changed_setting_and_the_shorter_queue(tmp_path: Path) -> None:
    before = recorded_run(tmp_path / "a", queueing=0.2, seed=1)
    after = recorded_run(
        tmp_path / "b", queueing=0.08, seed=2, settings=("topology.workers=3",), started=1_795_009_000.0
    )
    result = comparison(before, after)
    queue = figure(result, QUEUEING)
    assert queue.change == pytest.approx(-0.6, abs=0.06)
    assert queue.low is not None
    assert queue.high is not None
    assert queue.low < -0.6 < queue.high, "the known truth"
    assert queue.high - queue.low < 0.2
    assert (queue.basis, queue.beyond_noise) == ("requests", True)
    assert figure(result, SERVICE).beyond_noise is False
    assert figure(result, "split.response_time.p99").beyond_noise is True
    sentence = verdict(result)
    assert sentence.startswith("Between run 1 and run 2 topology.workers went 2 → 3; mean queueing fell by ")
    assert sentence.endswith(f"({signed_percent(queue.low)} to {signed_percent(queue.high)}).")
    assert [(each.name, each.before, each.after) for each in result.flips] == [("short", False, True)]


def test_runs_without_a_change_do_not_differ_beyond_noise(tmp_path: Path) -> None:
    """Eight pairs without a change: a correct 95 % interval excludes 0 in hardly one of them."""
    sides = [recorded_run(tmp_path / f"r{seed}", seed=seed, requests=1_500) for seed in range(9)]
    wrong = [figure(comparison(one, other), QUEUEING).beyond_noise for one, other in itertools.pairwise(sides)]
    assert sum(bool(each) for each in wrong) <= 2


def test_rounds_give_an_interval_for_any_figure(tmp_path: Path) -> None:
    before = recorded_run(tmp_path / "a", queueing=0.2, rounds=5, requests=300, seed=1)
    after = recorded_run(tmp_path / "b", queueing=0.1, rounds=5, requests=300, seed=2)
    result = comparison(before, after, every=True)
    queue = figure(result, QUEUEING)
    assert (queue.basis, queue.beyond_noise) == ("rounds", True)
    assert queue.low is not None
    assert queue.high is not None
    assert queue.low < -0.5 < queue.high
    assert figure(result, "figures.balance.busiest").beyond_noise is False
    assert not any(each.path.startswith(("window", "round", "duration")) for each in result.figures)
    assert len(result.figures) > len(comparison(before, after).figures)


def test_interval_of_a_fall_ends_above_minus_100_per_cent(tmp_path: Path) -> None:
    """Of few requests a difference of means is wider than the mean itself; a ratio of times is above 0."""
    before = recorded_run(tmp_path / "a", queueing=0.2, requests=60, seed=2)
    after = recorded_run(tmp_path / "b", queueing=0.02, requests=60, seed=1)
    queue = figure(comparison(before, after), QUEUEING)
    assert queue.basis == "requests"
    assert queue.low is not None
    assert queue.high is not None
    assert queue.change is not None
    assert -1.0 < queue.low < queue.change < queue.high < 0.0
    assert queue.low < -0.9 < queue.high, "the known truth"


def test_requests_of_two_rounds_are_pooled(tmp_path: Path) -> None:
    before = recorded_run(tmp_path / "a", queueing=0.2, rounds=2, seed=1)
    after = recorded_run(tmp_path / "b", queueing=0.1, rounds=2, seed=2)
    queue = figure(comparison(before, after), QUEUEING)
    assert (queue.basis, queue.beyond_noise) == ("requests", True)
    assert queue.change == pytest.approx(-0.5, abs=0.07)


def test_interval_over_rounds_needs_three_complete_rounds() -> None:
    pairs: list[tuple[float | None, float | None]] = [(1.0, 2.0), (1.0, 2.2), (1.0, 1.8)]
    result = interval_by_rounds(pairs)
    assert result is not None
    assert result[0] < 1.0 < result[1]
    assert interval_by_rounds(pairs[:2]) is None
    assert interval_by_rounds([*pairs, (None, 2.0)]) is None
    assert interval_by_rounds([*pairs, (0.0, 2.0)]) is None


def test_few_requests_or_an_unreadable_file_give_no_interval(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    few, many = recorded_run(tmp_path / "few", requests=20), recorded_run(tmp_path / "many")
    result = comparison(few, many)
    assert figure(result, QUEUEING).beyond_noise is None
    assert "p: no interval from 20 requests" in result.notes
    assert verdict(result) == snapshot
    (many / "requests.parquet").write_bytes(b"PAR1")
    lost = comparison(recorded_run(tmp_path / "more"), many)
    assert figure(lost, QUEUEING).low is None
    assert any("requests.parquet cannot be compared" in note for note in lost.notes)


def test_another_scale_is_one_difference(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    before = recorded_run(tmp_path / "a")
    after = recorded_run(tmp_path / "b", scale=0.3, settings=("topology.balancer='least_conn'",))
    result = comparison(before, after)
    assert [(each.path, each.before, each.after) for each in result.setup] == [
        ("topology.balancer", "round_robin", "least_conn"),
        ("scale", 1.0, 0.3),
    ]
    assert result.notes == snapshot


def test_settings_have_the_names_of_entries_in_their_paths_and_lists_are_one_setting() -> None:
    result = dict(settings({"cases": [{"name": "a", "load": {"at": [1, 2]}}, {"name": "b"}], "seed": 1}))
    assert result == {"cases.a.load.at": [1, 2], "seed": 1}
    assert alike(0.1 * 3, 0.3)
    assert alike([1.0, "a"], [1, "a"])
    assert not alike(True, 1.1)
    assert not alike("absent", None)


def test_kinds_of_differences_are_versions_run_and_changes(tmp_path: Path) -> None:
    before = recorded_run(tmp_path / "a", versions={"nginx": "1.22.1", "njs": "0.7"})
    after = recorded_run(tmp_path / "b", versions={"nginx": "1.28.0"}, runtime="compose", changes={"seed": 2})
    result = {
        each.path: each for each in setup_differences(*(selected(str(each), tmp_path) for each in (before, after)))
    }
    assert (result["versions.nginx"].kind, result["versions.nginx"].after) == ("versions", "1.28.0")
    assert result["versions.njs"].after == "absent"
    assert result["runtime"].kind == "run"
    assert result["changes.seed"].kind == "changes"


def test_runs_of_different_scenarios_are_compared_by_common_cases(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    before = recorded_run(tmp_path / "a")
    after = recorded_run(tmp_path / "b", settings=("name='other'", "topology.workers=4"))
    result = comparison(before, after)
    assert verdict(result).startswith("Between run 1 and run 2 the scenario changed from known to other; ")
    assert result.notes == snapshot
    raw = json.loads((after / "run.json").read_bytes())
    raw["cases"][0] |= {"name": "q", "base": "q"}
    (after / "run.json").write_text(json.dumps(raw))
    apart = comparison(before, after)
    assert (apart.only_a, apart.only_b) == (["p"], ["q"])
    assert verdict(apart) == snapshot


def test_record_of_another_version_is_compared_with_its_unknown_keys(tmp_path: Path) -> None:
    before, after = recorded_run(tmp_path / "a"), recorded_run(tmp_path / "b", settings=("topology.workers=3",))
    raw = json.loads((before / "run.json").read_bytes())
    raw["scenario"]["no_longer_known"] = {"x": 1}
    (before / "run.json").write_text(json.dumps(raw))
    result = {each.path for each in comparison(before, after).setup}
    assert {"no_longer_known.x", "topology.workers"} <= result


def test_command_prints_the_verdict_first_and_escapes_control_characters(tmp_path: Path) -> None:
    recorded_run(tmp_path / "a", queueing=0.2)
    recorded_run(tmp_path / "b", queueing=0.1, changes={"x\x1b[31m[red]": "\x1b]0;t\x07"}, started=1_795_009_000.0)
    done = CliRunner().invoke(app, ["compare", "1", "2", "--dir", str(tmp_path), "--all"])
    assert done.exit_code == 0
    text = " ".join(done.stdout.split())
    assert text.startswith("Between run 1 and run 2 no setting was changed; mean queueing fell by ")
    assert "up in 0.4 s, then 0.4 s" in text
    assert "\x1b" not in done.stdout
    assert "\x07" not in done.stdout
    result = json.loads(CliRunner().invoke(app, ["compare", "a", "b", "--dir", str(tmp_path), "--json"]).stdout)
    assert result["verdict"].startswith("Between run 1 and run 2")
    assert result["a"]["run"] == "a"
    assert {each["path"] for each in result["figures"]} >= {QUEUEING, SERVICE}
    missing = CliRunner().invoke(app, ["compare", "a", "c", "--dir", str(tmp_path)])
    assert missing.exit_code == 1
    assert "there is no run c" in missing.stderr
