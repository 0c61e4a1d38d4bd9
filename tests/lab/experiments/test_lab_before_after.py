"""A change judged by four measures with a goal each: all missed before, all met after."""

from __future__ import annotations

from pathlib import Path

import pytest
from lab_support import find_scenario, first_round, missed, sound_run
from sojourn_lab.runtime.nginx import Nginx

MEASURES = ("throughput", "errors", "latency", "scalability")


@pytest.mark.parametrize("measure", MEASURES)
def test_every_measure_has_a_goal_that_must_be_missed_before_and_met_after(measure: str) -> None:
    names = [each.name for each in find_scenario("before-after").criteria if each.name.startswith(f"{measure}, goal")]
    assert [name.rpartition(": ")[2] for name in names] == ["missed before", "met after"]


@pytest.mark.scenario
@pytest.mark.skipif(Nginx.why_unavailable() is not None, reason=Nginx.why_unavailable() or "")
def test_the_goals_are_missed_before_and_met_after(tmp_path: Path) -> None:
    run = sound_run(tmp_path, "before-after", "--scale", "0.3", "--seed", "8")
    assert missed(run) == []
    before, before_twice, after, after_twice = (case["client"] for case in first_round(run).values())
    assert before_twice["errors"].keys() == {"timeout"}
    assert after["errors"] == after_twice["errors"] == {}
    assert before["useful"]["rate"] < after["useful"]["rate"] < after_twice["useful"]["rate"]
