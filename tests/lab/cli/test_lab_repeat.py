"""A void run is repeated once, with a lower load where the scenario allows it, and always leaves a report."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path

import pytest
from sojourn_lab.cli import app
from sojourn_lab.results.run_folder import RunFolder
from sojourn_lab.runtime.nginx import Nginx
from typer.testing import CliRunner, Result

pytestmark = pytest.mark.skipif(Nginx.why_unavailable() is not None, reason=Nginx.why_unavailable() or "")

# With two ports the generator cannot send forty requests a second that take 0.2 s each: void on any machine.
VOID = """
name = "starved"
title = "t"
question = "q"
shows = "s"
seed = 1
duration = 0.5
repeat_scale = 2.0
[topology]
workers = 2
[[cases]]
name = "few-ports"
service_time = 0.2
local_ports = 2
load = {kind = "constant", rate = 40}
"""


IMPOSSIBLE = """
[[criteria]]
name = "no request at all"
metric = "client.sent"
cases = "*"
equals = 0
"""


def lab(folder: Path, *options: str, criteria: str = "") -> Result:
    file = folder / "starved.toml"
    file.write_text(VOID + criteria)
    done = CliRunner().invoke(app, ["run", str(file), "--out", str(folder / "run"), *options])
    assert "Traceback" not in done.stderr
    return done


def test_void_run_is_repeated_once_with_a_lower_load(tmp_path: Path) -> None:
    done = lab(tmp_path)
    assert done.exit_code == 1
    first, last = (json.loads((tmp_path / name / "run.json").read_bytes()) for name in ("run.void", "run"))
    assert (first["void"], first["scale"], first["first_try"]) == (True, 1.0, [])
    assert (last["void"], last["scale"], last["first_try"]) == (True, 2.0, first["void_reasons"])
    assert [each["cases"][0]["load"]["rate"] for each in (first, last)] == [40.0, 20.0]
    assert [each["cases"][0]["service_time"] for each in (first, last)] == [0.2, 0.4]
    assert all((tmp_path / name / "report.html").is_file() for name in ("run", "run.void"))
    assert done.stdout.splitlines()[-1] == f"report: {tmp_path / 'run' / 'report.html'}"
    assert done.stdout.startswith("⚠ void again: ")
    assert "run.void" in done.stderr


@pytest.mark.parametrize("neighbours", [1, 30])
def test_void_run_says_so_once_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, neighbours: int
) -> None:
    processes = ", ".join(f"backup (process {1000 + number}, 61% of a core)" for number in range(neighbours))
    monkeypatch.setattr("sojourn_lab.results.run_record.what_to_do", lambda _: f"Close {processes} and run it again.")
    done = lab(tmp_path, "--once", criteria=IMPOSSIBLE)
    record = json.loads((tmp_path / "run" / "run.json").read_bytes())
    text = " ".join(done.stdout.split())
    page = unescape(re.sub(r"<[^>]*>", "", (tmp_path / "run" / "report.html").read_text().partition("<body")[2]))
    page = " ".join(page.split())
    for shown in (text, page.partition("Measured")[0]):
        assert len(re.findall(r"\bvoid\b", shown, re.IGNORECASE)) == 1
        assert shown.count(record["advice"]) == 1
        for reason in record["void_reasons"]:
            assert shown.count(reason) == 1


def test_void_run_exits_0_where_it_is_accepted_and_no_criterion_failed(tmp_path: Path) -> None:
    done = lab(tmp_path, "--once", "--accept-void", "--json")
    record = json.loads(done.stdout)
    assert (done.exit_code, record["void"], record["passed"]) == (0, True, False)


def test_accepted_void_run_exits_1_where_a_criterion_failed(tmp_path: Path) -> None:
    done = lab(tmp_path, "--once", "--accept-void", "--json", criteria=IMPOSSIBLE)
    assert (done.exit_code, json.loads(done.stdout)["criteria"][0]["passed"]) == (1, False)


def test_once_leaves_a_void_run_as_it_is(tmp_path: Path) -> None:
    done = lab(tmp_path, "--once", "--json")
    assert (done.exit_code, done.stderr) == (1, "")
    assert json.loads(done.stdout)["scale"] == 1.0
    assert not (tmp_path / "run.void").exists()


def test_void_folder_takes_the_next_free_name(tmp_path: Path) -> None:
    (tmp_path / "run.void").mkdir()
    folder = RunFolder.claimed(tmp_path / "run")
    folder.finished()
    assert folder.set_aside() == tmp_path / "run.void-2"
    assert not (tmp_path / "run").exists()
