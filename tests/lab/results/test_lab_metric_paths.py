"""Metric paths are checked before a run: one that no run can have is an error with what there is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import pytest
from sojourn_lab.cli import app
from sojourn_lab.results.figure_paths import OF_ANALYSES, OF_KINDS
from sojourn_lab.results.metric_paths import metric_problems
from sojourn_lab.scenario.experiment_settings import OTHER_KINDS
from sojourn_lab.scenario.files import raw_scenario, shipped_scenario_paths
from sojourn_lab.scenario.schema import AnalysisName
from syrupy.assertion import SnapshotAssertion
from typer.testing import CliRunner

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "reference" / "json.md"
CASES = [{"name": "one", "load": {}}, {"name": "two", "load": {}}]
NOT_NUMBERS = ("text", "list", "object", "null")


def reasons(*metrics: str, **more: Any) -> list[str]:
    """Return what is wrong with the metrics of criteria."""
    raw = {"cases": CASES, "criteria": [{"metric": metric} for metric in metrics], **more}
    return [problem.reason for problem in metric_problems(raw)]


@pytest.mark.parametrize(
    "metric",
    [
        "client.faild",
        "client.latency.corrected",
        "client.failed.count",
        "split.components.queueing.p99",
        "split.components.queueing_delay.p98",
        "splt.response_time.p99",
        "figures.goodput.share",
        "three:client.failed",
        "tow:client.failed",
        "window.from",
        "name",
        "",
    ],
)
def test_path_that_no_run_has_is_an_error_with_what_there_is(metric: str, snapshot: SnapshotAssertion) -> None:
    assert reasons(metric) == snapshot


@pytest.mark.parametrize(
    "metric",
    [
        "client.failed",
        "client.statuses.503",
        "client.errors.timeout",
        "one:client.useful.rate",
        "split.components.queueing_delay.p99",
        "split.by.route.0.response_time.p99",
        "law.throughput",
        "reference.figures.anything",
        "listen.0.deepest",
        "load.rate",
        "topology.workers",
    ],
)
def test_path_that_a_run_may_have_is_accepted(metric: str) -> None:
    assert reasons(metric) == []


def test_names_that_the_run_decides_may_have_dots() -> None:
    paths = ("figures.routes.by./a.b/c.queueing_delay.p99", "figures.routes.waits./a.b.blamed./c.d")
    assert reasons(*paths, analyses=["routes"]) == []
    assert len(reasons("figures.routes.by./a.b.queueing_delay.p98", analyses=["routes"])) == 1


def test_bounds_columns_and_contrasts_are_checked_too() -> None:
    raw = {
        "cases": CASES,
        "criteria": [
            {"metric": "client.failed", "above": "one:client.faild"},
            {"metric": "ratio", "contrasts": "*", "below": 1.0},
            {"metric": "ratios", "contrasts": "*"},
            {"metric": "p99.predicted", "predictions": "*", "of": "p99.afterwards"},
            {"metric": 3},
            "no table",
        ],
        "columns": [{"metric": "client.sents"}],
        "contrasts": [{"metric": "split.response_time.p50", "a": "one", "b": "two"}, {"metric": "split.response.p50"}],
    }
    assert [problem.path for problem in metric_problems(raw)] == [
        "criteria[0].above",
        "criteria[2].metric",
        "criteria[3].of",
        "columns[0].metric",
        "contrasts[1].metric",
    ]


@pytest.mark.parametrize(
    "path", [*shipped_scenario_paths(), *sorted((ROOT / "lab" / "studies").rglob("*.toml"))], ids=lambda path: path.stem
)
def test_paths_of_every_scenario_of_the_project_exist(path: Path) -> None:
    assert list(metric_problems(raw_scenario(path))) == []


def test_every_analysis_and_every_kind_of_case_has_paths() -> None:
    assert set(OF_ANALYSES) == set(get_args(AnalysisName))
    assert set(OF_KINDS) == {"http", *OTHER_KINDS, "autoscale"}


def test_every_number_of_the_json_of_split_is_a_path() -> None:
    text = PAGE.read_text(encoding="utf-8").partition("## split\n")[2].partition("\n## ")[0]
    paths = []
    for path, kind in re.findall(r"^\| `([^`]+)` \| ([^|]+?) \|$", text, re.MULTILINE):
        if kind in NOT_NUMBERS:
            continue
        below = {"figures": ".p99", "by component": ".network"}.get(kind, "")
        paths.append(f"split.{path.replace('[]', '.0').replace('*', 'queue')}{below}")
    assert len(paths) > 60
    assert reasons(*paths) == []


def test_mistyped_metric_ends_the_command_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        'name = "mine"\ntitle = "t"\nquestion = "q"\nshows = "s"\nseed = 1\nduration = 1\n'
        '[[cases]]\nname = "one"\nservice_time = 0.1\nload = {kind = "closed", concurrency = 1}\n'
        '[[criteria]]\nname = "x"\nmetric = "client.faild"\nequals = 0\n'
    )
    done = CliRunner().invoke(app, ["run", str(tmp_path / "mine.toml"), "--out", str(tmp_path / "run")])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "criteria[0].metric" in done.stderr
    assert "client.failed" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine.toml"]
