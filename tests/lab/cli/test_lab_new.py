"""`sojourn lab new`: a scenario that runs as it is, whose commented settings are right, and that overwrites nothing."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from pathlib import Path

import pytest
from sojourn_lab.cli import app
from sojourn_lab.results.metric_paths import metric_problems
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.scenario.files import raw_from_text, scenario_from_raw
from sojourn_lab.scenario.load import Load
from sojourn_lab.scenario.template import MARK, template_text
from typer.testing import CliRunner

TEXT = template_text("mine")
SETTINGS = [number for number, line in enumerate(TEXT.splitlines()) if line.startswith(f"{MARK} ")]
LOADS = [number for number, line in enumerate(TEXT.splitlines()) if line.startswith(f"{MARK}load")]
CRITERIA = [number for number, line in enumerate(TEXT.splitlines()) if re.match(rf"{MARK}(\[|name|metric|below)", line)]


def with_lines(*numbers: int) -> str:
    """Return the template with these lines in force."""
    lines = TEXT.splitlines()
    for number in numbers:
        lines[number] = lines[number].removeprefix(MARK).strip()
    return "\n".join(lines)


def check(text: str) -> None:
    raw = raw_from_text(text, "mine.toml")
    scenario_from_raw(raw, "mine.toml", check=metric_problems)


def test_template_is_valid_and_a_comment_precedes_each_part() -> None:
    check(TEXT)
    assert tomllib.loads(TEXT)["name"] == "mine"
    assert TEXT.startswith("# mine: ")
    assert "NAME" not in TEXT
    for part in re.findall(r"^\[.*", TEXT, re.MULTILINE):
        assert re.search(rf"#[^\n]*\n(?:[^\n]*\n)?{re.escape(part)}", TEXT), part


@pytest.mark.parametrize("number", SETTINGS, ids=lambda number: TEXT.splitlines()[number].split("=")[0].strip("#: "))
def test_each_commented_setting_is_valid(number: int) -> None:
    text = with_lines(number)
    check(text.replace("--bind {host} {port}", "{socket}") if "unix = true" in text.splitlines()[number] else text)


@pytest.mark.parametrize("number", LOADS)
def test_each_commented_load_is_valid(number: int) -> None:
    lines = with_lines(number).splitlines()
    lines.remove('load = {kind = "poisson", rate = 10.0}')
    check("\n".join(lines))


def test_commented_criteria_are_valid_and_most_loads_are_there() -> None:
    check(with_lines(*CRITERIA))
    assert len(CRITERIA) == 8
    kinds = {each.__struct_config__.tag for each in Load.__subclasses__()} - {"instants"}
    assert kinds <= set(re.findall(r'kind = "(\w+)"', TEXT))


def test_writes_the_file_and_overwrites_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["new", "my-app"])
    assert (done.exit_code, done.stderr) == (0, "")
    assert "my-app.toml" in done.stdout
    assert (tmp_path / "my-app.toml").read_text() == template_text("my-app")
    (tmp_path / "my-app.toml").write_text("mine")
    again = CliRunner().invoke(app, ["new", "my-app.toml"])
    assert (again.exit_code, again.stdout) == (1, "")
    assert "my-app.toml already exists" in again.stderr
    assert (tmp_path / "my-app.toml").read_text() == "mine"
    for name in ("My App", "../x", "a/b", ""):
        assert CliRunner().invoke(app, ["new", name]).exit_code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["my-app.toml"]


@pytest.mark.skipif(Nginx.why_unavailable() is not None, reason=Nginx.why_unavailable() or "")
@pytest.mark.skipif(shutil.which("python3") is None, reason="python3 is not on PATH")
def test_new_scenario_runs_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    CliRunner().invoke(app, ["new", "mine"])
    arguments = ["run", "mine.toml", "--quick", "--once", "--accept-void", "--out", "run", "--json", "--quiet"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.stderr
    record = json.loads(done.stdout)
    assert all(each["passed"] for each in record["criteria"])
    assert {case["name"]: set(case["figures"].get("targets", {})) for case in record["cases"]} == {
        "users": set(),
        "arrivals": {"/", "/?page=2"},
    }
