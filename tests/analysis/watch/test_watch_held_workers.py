"""Workers that are held by something the log does not show: `watch` marks utilisation as a lower bound."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sojourn.cli import app
from typer.testing import CliRunner
from worker_log import WorkerSystem, worker_log

HELD = WorkerSystem(load=0.9, hidden=0.5)


def printed(log: Path, *options: str) -> str:
    result = CliRunner(env={"COLUMNS": "100", "NO_COLOR": "1"}).invoke(app, ["watch", str(log), "--once", *options])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_load_not_in_the_log_makes_utilisation_a_lower_bound(tmp_path: Path) -> None:
    log = tmp_path / "held.jsonl"
    worker_log(log, HELD)
    screen = printed(log)
    assert "workers looked free" in screen
    assert "≥ " in screen
    assert json.loads(printed(log, "--json"))["queues"]["looked_free"] is True


@pytest.mark.parametrize("load", [0.2, 0.6, 0.9, 1.1])
def test_plain_pool_is_not_marked(tmp_path: Path, load: float) -> None:
    log = tmp_path / "plain.jsonl"
    worker_log(log, WorkerSystem(load=load))
    screen = printed(log)
    assert "looked free" not in screen
    assert "≥ " not in screen
