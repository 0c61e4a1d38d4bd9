"""A change judged by four measures with a goal each: all missed before, all met after."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from sojourn_lab.nginx import Nginx
from sojourn_lab.scenario_files import find_scenario

ATTEMPTS = 3
MEASURES = ("throughput", "errors", "latency", "scalability")


@pytest.mark.parametrize("measure", MEASURES)
def test_every_measure_has_a_goal_that_must_be_missed_before_and_met_after(measure: str) -> None:
    names = [each.name for each in find_scenario("before-after").criteria if each.name.startswith(f"{measure}, goal")]
    assert [name.rpartition(": ")[2] for name in names] == ["missed before", "met after"]


@pytest.mark.skipif(not Nginx.available(), reason=Nginx.why_unavailable() or "")
def test_the_goals_are_missed_before_and_met_after(tmp_path: Path) -> None:
    for attempt in range(ATTEMPTS):
        out = tmp_path / f"run-{attempt}"
        command = [sys.executable, "-m", "sojourn_lab", "run", "before-after", "--scale", "0.3", "--seed", "8"]
        done = subprocess.run(
            [*command, "--json", "--out", str(out)], capture_output=True, text=True, timeout=150, check=False
        )
        assert "Traceback" not in done.stderr
        run = json.loads(done.stdout)
        if not run["void"]:
            break
    assert run["void_reasons"] == []
    assert run["faults"] == []
    assert [each for each in run["criteria"] if not each["passed"]] == []
    before, before_twice, after, after_twice = (case["client"] for case in run["cases"])
    assert before_twice["errors"].keys() == {"timeout"}
    assert after["errors"] == after_twice["errors"] == {}
    assert before["useful"]["rate"] < after["useful"]["rate"] < after_twice["useful"]["rate"]
