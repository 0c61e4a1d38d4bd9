"""`sojourn lab`: exit codes, what goes where, and that nothing outlives a run."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
import threading
from pathlib import Path

import polars
import pytest
from lab_support import eventually, groups_of, small_scenario
from sojourn_lab.cli import app
from sojourn_lab.experiments import runner
from sojourn_lab.results import run_record
from sojourn_lab.runtime import backends
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.runtime.process import group_members
from typer.testing import CliRunner

COMMAND = [sys.executable, "-m", "sojourn_lab"]
needs_nginx = pytest.mark.skipif(Nginx.why_unavailable() is not None, reason=Nginx.why_unavailable() or "")


def lab(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)], capture_output=True, text=True, cwd=cwd, timeout=120, check=False
    )
    assert "Traceback" not in done.stderr
    return done


def test_list_lists() -> None:
    result = CliRunner().invoke(app, ["list"])
    assert result.exit_code == 0
    assert "benchmark" in result.stdout
    (result,) = [
        each for each in json.loads(CliRunner().invoke(app, ["list", "--json"]).stdout) if each["name"] == "benchmark"
    ]
    assert result["cases"] == 6


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "benchmrk"], "there is no scenario 'benchmrk'; there are: abort-on-overflow"),
        (["run", "none.toml"], "none.toml: cannot be read"),
        (["run", "bad.toml"], "bad.toml: "),
        (["run", "benchmark", "--scale", "0"], "--scale"),
        (["run", "benchmark", "--scale", "nan"], "--scale"),
        (["run", "benchmark", "--duration", "-1"], "--duration"),
        (["run", "benchmark", "--duration", "5", "--full"], "give one of them"),
        (["run", "small.toml", "--full"], "no `full_duration`"),
        (["run", "benchmark", "--server", "apache"], "--server"),
        (["run", "benchmark", "--runtime", "cloud"], "--runtime"),
        (["run"], "`sojourn lab list`"),
        (["show", "nothing"], "there is no run nothing"),
        (["dance"], "dance"),
    ],
)
def test_wrong_usage_exits_2_with_a_message_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.toml").write_text("name = 3\n")
    small_scenario(tmp_path)
    done = CliRunner().invoke(app, arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert words in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.toml", "small.toml"]


def test_control_characters_of_a_file_are_escaped(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text('"\\u001b[31mred" = 1\n')
    done = CliRunner().invoke(app, ["run", str(path)])
    assert done.exit_code == 2
    assert "\x1b" not in done.output
    assert r"\x1b[31mred" in done.stderr


@pytest.mark.parametrize(
    ("content", "words"),
    [("{", "is not the record of a run"), ('{"scenario": 3}', "is not the record of a run"), (None, "cannot be read")],
)
def test_a_folder_that_holds_no_run_exits_1(tmp_path: Path, content: str | None, words: str) -> None:
    if content is not None:
        (tmp_path / "run.json").write_text(content)
    done = CliRunner().invoke(app, ["show", str(tmp_path)])
    assert (done.exit_code, done.stdout) == (1, "")
    assert words in done.stderr


def test_an_existing_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    done = CliRunner().invoke(app, ["run", str(small_scenario(tmp_path)), "--out", str(tmp_path / "old")])
    assert done.exit_code == 1
    assert "already exists" in done.stderr


@needs_nginx
def test_a_run_leaves_its_folder_and_show_shows_it(tmp_path: Path) -> None:
    done = lab("run", small_scenario(tmp_path), "--json", "--once", cwd=tmp_path)
    assert done.stderr == "", "no output on stderr without a terminal"
    (folder,) = (tmp_path / "runs").iterdir()
    record = json.loads(done.stdout)
    # A busy machine can make any run void, and then it says so; everything else is certain.
    assert done.returncode == (1 if record["void"] else 0)
    assert all(each["passed"] for each in record["criteria"])
    assert record["faults"] == []
    assert Path(record.pop("run")).resolve() == folder.resolve()
    assert json.loads((folder / "run.json").read_text()) == record
    names = {path.name for path in folder.iterdir()}
    assert names >= {
        *("run.json", "access.jsonl", "spans.jsonl", "client.jsonl", "listen.jsonl"),
        *("requests.parquet", "report.html", "logs", "nginx"),
    }
    rows = record["rows"]
    assert rows["client"] == rows["access"] == rows["spans"] > 20
    assert polars.read_parquet(folder / "requests.parquet").height == rows["access"]
    assert record["versions"]["nginx"].count(".") == 2
    assert record["spin_up"] > 0
    assert record["tear_down"] > 0
    assert not groups_of(folder)
    for case in record["cases"]:
        assert case["window"]["from"] < case["window"]["to"]
        assert case["split"]["records"]["rejected"] == 0
        assert {each["socket"] for each in case["listen"]} == {"nginx", "backend-1", "backend-2"}

    again = lab("show", folder.name, cwd=tmp_path)
    assert again.returncode == 0
    assert "c4" in again.stdout
    assert "every request answered" in again.stdout
    again = CliRunner().invoke(app, ["show", str(folder), "--json"])
    assert json.loads(again.stdout)["rows"] == rows


@needs_nginx
def test_a_failed_criterion_exits_1_and_keeps_the_run(tmp_path: Path) -> None:
    path = small_scenario(tmp_path, failed=3.0)
    done = CliRunner().invoke(app, ["run", str(path), "--duration", "0.3", "--once", "--out", str(tmp_path / "run")])
    assert done.exit_code == 1
    assert "failed" in done.stdout
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (record["passed"], record["faults"]) == (False, [])
    assert [(each["case"], each["passed"], each["value"]) for each in record["criteria"]] == [
        ("c2", False, 0.0),
        ("c4", False, 0.0),
    ]
    assert {case["duration"] for case in record["cases"]} == {0.3}


@needs_nginx
def test_an_analysis_that_fails_does_not_lose_the_measurement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise runner.LabError("the report of the run failed: no ink")

    monkeypatch.setattr(run_record, "write_report", broken)
    out = tmp_path / "run"
    done = CliRunner().invoke(app, ["run", str(small_scenario(tmp_path, duration=0.2)), "--once", "--out", str(out)])
    assert done.exit_code == 1
    assert "no ink" in done.stdout
    record = json.loads((out / "run.json").read_text())
    assert record["faults"] == ["the report of the run failed: no ink"]
    assert record["rows"]["access"] == record["rows"]["client"] > 0


@needs_nginx
def test_unexpected_error_is_a_message_with_details_in_the_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups: list[int] = []

    def broken(*_: object, **__: object) -> None:
        groups.extend(groups_of(tmp_path))
        raise ZeroDivisionError("in the middle")

    monkeypatch.setattr(runner, "_measured_case", broken)
    done = CliRunner().invoke(app, ["run", str(small_scenario(tmp_path)), "--out", str(tmp_path / "run")])
    assert done.exit_code == 1
    assert "unexpected ZeroDivisionError: in the middle" in done.stderr
    assert "Traceback" not in done.output
    assert "ZeroDivisionError" in (tmp_path / "run.partial" / "logs" / "lab.err").read_text()
    assert not (tmp_path / "run").exists()
    assert len(groups) == 3
    assert not any(group_members(group) for group in groups)


@needs_nginx
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_signal_stops_every_process(tmp_path: Path, number: signal.Signals) -> None:
    path = small_scenario(tmp_path, duration=60.0, service=0.3)
    partial = tmp_path / "run.partial"
    with subprocess.Popen(
        [*COMMAND, "run", str(path), "--out", str(tmp_path / "run")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        log = partial / "access.jsonl"
        eventually(lambda: log.exists() and log.stat().st_size > 0, 60.0, "the load to be under way")
        groups = groups_of(partial) - {process.pid}
        assert len(groups) == 4, "nginx, two backends, the generator"
        process.send_signal(number)
        out, err = process.communicate(timeout=60.0)
    eventually(lambda: not any(group_members(group) for group in groups), 60.0, "every process to be gone")
    assert process.returncode == (-number if number == signal.SIGKILL else 128 + number)
    assert out == ""
    assert "Traceback" not in err
    if number != signal.SIGKILL:
        assert f"stopped by {number.name}; everything is down, logs are in {partial}" in err
    assert not (tmp_path / "run").exists()
    result = CliRunner().invoke(app, ["show", str(partial)])
    assert result.exit_code == 1
    assert "was never finished" in result.stderr


@pytest.mark.thorough
@needs_nginx
def test_two_runs_at_once_share_nothing(tmp_path: Path) -> None:
    path = small_scenario(tmp_path)
    command = [*COMMAND, "run", str(path), "--json", "--once"]
    both = [subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    records = [json.loads(process.communicate(timeout=120)[0]) for process in both]
    assert len({record["run"] for record in records}) == 2
    for record in records:
        assert record["rows"]["client"] == record["rows"]["access"] > 0
        assert not record["faults"]
        assert sum(case["client"]["failed"] for case in record["cases"]) == 0


@pytest.mark.thorough
@needs_nginx
def test_progress_is_shown_at_a_terminal_only_and_not_on_stdout(tmp_path: Path) -> None:
    command = [*COMMAND, "run", str(small_scenario(tmp_path, duration=0.2)), "--json", "--once", "--out"]
    texts: dict[str, str] = {}

    def run(name: str, *options: str) -> None:
        terminal, end = pty.openpty()
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
        with subprocess.Popen(
            [*command, str(tmp_path / name), *options], stdout=subprocess.PIPE, stderr=end, env=environment
        ) as process:
            os.close(end)
            text = b""
            # A terminal whose other end is closed answers with an error, not with an end of file.
            with contextlib.suppress(OSError):
                while piece := os.read(terminal, 65_536):
                    text += piece
            os.close(terminal)
            assert process.stdout is not None
            assert json.loads(process.stdout.read())["rows"]["client"] > 0
        texts[name] = text.decode()

    both = [threading.Thread(target=run, args=args) for args in (("loud",), ("quiet", "--quiet"))]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert texts["quiet"] == ""
    for stage in ("starting nginx", "c2", "c4", "working out the results"):
        assert stage in texts["loud"]


@needs_nginx
def test_failed_run_does_not_affect_other_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    good = small_scenario(tmp_path, duration=0.2)
    text = (
        good.read_text()
        .replace('name = "small"', 'name = "broken"')
        .replace("[topology]", '[topology]\nserver = "unicorn"')
    )
    (tmp_path / "broken.toml").write_text(text)
    monkeypatch.setattr(
        backends, "why_unavailable", lambda topology: "no unicorn" if topology.server == "unicorn" else None
    )
    done = CliRunner().invoke(app, ["run", "broken.toml", "small.toml", "--quiet", "--once"])
    assert done.exit_code == 1
    assert "no unicorn" in done.stderr
    (produced,) = (tmp_path / "runs").glob("small-*")
    # A busy machine can make any run void.
    passed = json.loads((produced / "run.json").read_bytes())["passed"]
    assert f"{int(passed)} of 2 passed" in done.stdout
