"""``sojourn timeline`` as a program: files, standard output, exit codes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import sojourn
from perfetto_trace import parsed
from sojourn.cli import app
from typer.testing import CliRunner, Result

SHOP = Path(__file__).parents[3] / "docs" / "examples" / "shop.jsonl.gz"


def run(*arguments: object) -> Result:
    return CliRunner(env={"SOJOURN_CONFIG": ""}).invoke(app, ["timeline", *map(str, arguments)])


def test_a_file_and_standard_output_hold_the_same_trace(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sojourn", "--no-config", "timeline", str(SHOP), "--out"]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    piped = subprocess.run([*command, "-"], capture_output=True, check=True, env=environment, timeout=60)
    result = run(SHOP, "--out", tmp_path / "a.pftrace")
    assert result.exit_code == 0
    assert (tmp_path / "a.pftrace").read_bytes() == piped.stdout
    trace = parsed(tmp_path / "a.pftrace")
    assert f"{len([each for each in trace.slices if each.phase != 'released']):,} slices" in result.stdout
    assert f"{len([each for each in trace.slices if each.phase != 'released']):,} slices" in piped.stderr.decode()
    assert "108 requests are left out" in result.stderr
    assert [name for name in trace.attributes if name.startswith("sojourn_note")] == ["sojourn_note_1"]


def test_options_are_those_of_the_analyses(tmp_path: Path) -> None:
    window = ("--since", "2026-01-01T00:00:30Z", "--until", "2026-01-01T00:00:40Z")
    assert run(SHOP, "--out", tmp_path / "a", *window, "--where", "route=/export", "--quiet").exit_code == 0
    since, until = 1_767_225_630.0, 1_767_225_640.0
    expected = sojourn.write_timeline(SHOP, tmp_path / "b", since=since, until=until, where={"route": "/export"})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert 50 < expected.requests < 500


@pytest.mark.parametrize(("content", "code"), [(b"a list of things to do\n", 2), (b"", 0)])
def test_another_file_is_replaced_with_force_only(tmp_path: Path, content: bytes, code: int) -> None:
    out = tmp_path / "a"
    out.write_bytes(content)
    assert run(SHOP, "--out", out).exit_code == code
    if code:
        assert out.read_bytes() == content
        assert run(SHOP, "--out", out, "--force").exit_code == 0
    size = out.stat().st_size
    assert run(SHOP, "--out", out, "--where", "route=/export").exit_code == 0
    assert 0 < out.stat().st_size < size


def test_a_log_without_requests_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").touch()
    result = run(tmp_path / "empty.jsonl", "--out", tmp_path / "a.pftrace")
    assert isinstance(result.exception, sojourn.SojournError)
    assert not (tmp_path / "a.pftrace").exists()


def test_a_folder_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    result = run(SHOP, "--out", tmp_path / "nowhere" / "a.pftrace")
    assert isinstance(result.exception, sojourn.SojournError)
    assert "nowhere" in str(result.exception)
