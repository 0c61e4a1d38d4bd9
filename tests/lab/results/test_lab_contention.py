"""What services share: figures of a case, and a scenario with real servers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lab_support import find_scenario, sound_run
from sojourn_lab.results.analyses.contention import contention_figures
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.scenario.schema import Scenario

CORES = {
    "name": "a:1", "family": "cores", "share": 1.0, "capacity": 1.9, "contention": 0.0, "coherence": 0.0, "low": 1.8,
    "high": 2.1, "busy": 0.7, "workers_busy": 0.4, "scarcest": True, "slowdown": 1.4,
}  # fmt: skip
WHATIF: dict[str, Any] = {"contention": None, "error": {"mean": 0.01, "p99": -0.02}, "refused": None}


def test_figures_of_the_resource_that_slows_services_most() -> None:
    resources = [{**CORES, "name": "b:1", "slowdown": 1.1}, CORES]
    contention = {"scope": "backend", "resources": resources, "inner_queues": []}
    figures = contention_figures({**WHATIF, "contention": contention})
    assert figures == {
        "scope": "backend", "name": "a:1", "family": "cores", "share": 1.0, "capacity": 1.9, "low": 1.8, "high": 2.1,
        "busy": 0.7, "slowdown": 1.4, "places": None, "places_low": None, "places_high": None, "inner_wait": None,
        "replay_mean": 0.01, "replay_p99": -0.02, "refused": None,
    }  # fmt: skip


def test_figures_of_a_queue_inside_the_app() -> None:
    queue = {"name": "a:1", "places": 5, "low": 5, "high": 6, "wait": 0.02, "service": 0.08}
    contention = {"scope": "backend", "resources": [], "inner_queues": [queue]}
    figures = contention_figures({**WHATIF, "contention": contention})
    assert [figures[name] for name in ("places", "places_low", "places_high", "inner_wait")] == [5, 5, 6, 0.02]
    assert figures["family"] is None


def test_services_that_share_nothing_have_no_figures() -> None:
    figures = contention_figures({**WHATIF, "refused": "too few requests"})
    assert (figures["scope"], figures["capacity"], figures["places"]) == (None, None, None)
    assert figures["refused"] == "too few requests"


def test_cases_are_below_the_capacity_of_what_they_share() -> None:
    scenario: Scenario = find_scenario("contention")
    capacity = {"cores": 2.0, "lock": 1.0}
    for case in scenario.cases:
        topology, (first, *_) = scenario.topology_of(case), case.routes
        load: Any = case.load
        if topology.dependency is not None:
            busy = load.rate * first.dependency * topology.dependency.slowdown / topology.dependency.workers
        else:
            shared = topology.connections or capacity[case.name.partition("-")[0]]
            busy = load.rate * case.mean_service_time / shared
        assert 0.3 < busy < 0.8, case.name


@pytest.mark.alone
@pytest.mark.scenario
@pytest.mark.timeout(1_300)
@pytest.mark.skipif(Nginx.why_unavailable() is not None, reason=str(Nginx.why_unavailable()))
def test_services_depend_on_the_load_of_real_servers(tmp_path: Path) -> None:
    run = sound_run(tmp_path, "contention", "--quick", deadline=400.0)
    assert {each["value"] for each in run["criteria"] if each["metric"] == "client.failed"} == {0.0}
    service = {case["name"]: case["figures"]["contention"]["service"] for case in run["cases"]}
    # The same demands take longer where more of them are in progress, and less of a faster dependency.
    assert service["cores-w2"] * 1.1 < service["cores-w4"] < service["cores-w8"]
    assert service["lock-t4"] > 1.5 * 0.061
    assert service["dependency-fast"] < 0.7 * service["dependency-w4"]
