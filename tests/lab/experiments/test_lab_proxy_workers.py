"""More workers of the proxy in front of saturated app servers make no difference beyond the interval."""

from __future__ import annotations

from pathlib import Path

import pytest
from lab_support import find_scenario, sound_run
from sojourn_lab.runtime.nginx import Nginx

SETTINGS = ("repeats=3", "cases.*.load.concurrency=10")


def test_throughput_and_mean_are_judged_by_both_ends_of_their_intervals() -> None:
    scenario = find_scenario("proxy-workers")
    judged = [(each.contrasts, each.metric) for each in scenario.criteria if each.contrasts is not None]
    assert judged == [("[tm]*", "low"), ("[tm]*", "high"), ("p95-*", "ratio")]
    assert len(scenario.contrasts) == 6
    assert scenario.repeats >= 3
    assert [scenario.topology_of(case).nginx_workers for case in scenario.cases] == [2, 4, 6]


@pytest.mark.scenario
@pytest.mark.skipif(Nginx.why_unavailable() is not None, reason=Nginx.why_unavailable() or "")
def test_workers_of_the_proxy_make_no_difference(tmp_path: Path) -> None:
    settings = [word for each in SETTINGS for word in ("--set", each)]
    run = sound_run(tmp_path, "proxy-workers", "--duration", "1", "--seed", "7", *settings)
    out = Path(run["run"])
    assert [each["rounds"] for each in run["contrasts"]] == [3] * 6
    for contrast in run["contrasts"]:
        # In a second the count of answers moves by 5 %, and three of them decide p95; the mean hardly moves.
        tolerance = 0.06 if contrast["name"].startswith("mean") else 0.3
        assert contrast["ratio"] == pytest.approx(1.0, abs=tolerance), contrast
        assert contrast["low"] <= contrast["ratio"] <= contrast["high"]
    # nginx really had that many workers.
    values = {path.parent.parent.name: path.read_text() for path in out.glob("logs/topology-*/nginx/nginx.conf")}
    by_name = {text.partition("worker_processes ")[2].partition(";")[0] for text in values.values()}
    assert by_name == {"2", "4", "6"}
