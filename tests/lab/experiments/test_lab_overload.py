"""Overload, retry storm, burst, head-of-line blocking: what the scenarios claim holds for other seeds and rates too."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from lab_support import find_scenario, sound_run_of
from sojourn_lab.results.criteria import by_base, median_at
from sojourn_lab.results.run_schema import Run
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.scenario.case import Case
from sojourn_lab.scenario.load import PoissonLoad, StepsLoad
from sojourn_lab.scenario.run_options import without_long_cases
from sojourn_lab.scenario.scaling import scenario_with_time_scaled
from sojourn_lab.scenario.schema import Scenario

pytestmark = pytest.mark.alone

needs_nginx = pytest.mark.skipif(Nginx.why_unavailable() is not None, reason=Nginx.why_unavailable() or "")


def with_cases(scenario: Scenario, names: Sequence[str], **changes: Any) -> Scenario:
    """Return the scenario with these cases only and what is claimed of them, with other values."""
    cases = [msgspec.structs.replace(case, quick=case.name in names) for case in scenario.cases]
    return msgspec.structs.replace(
        without_long_cases(msgspec.structs.replace(scenario, cases=cases)), learned="", **changes
    )


def with_loads(scenario: Scenario, load: PoissonLoad | StepsLoad, names: str) -> Scenario:
    """Return the scenario with another load for the cases whose name ends so."""

    def changed(case: Case) -> Case:
        return msgspec.structs.replace(case, load=load) if case.name.endswith(names) else case

    return msgspec.structs.replace(scenario, cases=[changed(case) for case in scenario.cases])


def run_of(scenario: Scenario, folder: Path, scale: float = 1.0) -> Run:
    """Return a run that met all criteria."""
    run = sound_run_of(scenario_with_time_scaled(scenario, scale), folder, scale)
    assert [each for each in run.criteria if not each.passed] == []
    return run


def median_of(run: Run, case: str, path: str) -> float:
    """Return the median of a figure over the rounds of a case: a case that is compared has several."""
    median = median_at(f"figures.{path}", by_base(run.cases)[case])
    assert median is not None, (case, path)
    return median


def test_the_short_form_keeps_what_is_claimed_of_its_cases() -> None:
    whole = find_scenario("overload")
    short = without_long_cases(whole)
    assert {case.name for case in whole.cases if case.name.endswith("-150")}
    assert {case.name.rpartition("-")[2] for case in short.cases} == {"50", "200"}
    claims = {criterion.name for criterion in short.criteria}
    assert "twice the capacity, lifo: more than 70 % of the capacity is of use" in claims
    assert "1.5 times the capacity, lifo: more than 70 % of the capacity is of use" not in claims
    assert "no log record refused" in claims
    assert without_long_cases(short) is short


def test_the_same_requests_are_offered_to_every_discipline() -> None:
    cases = {case.name: case for case in find_scenario("overload").cases}
    assert len(cases) == 24
    for name, case in cases.items():
        assert case.same_draws(cases[f"fifo-{name.rpartition('-')[2]}"])
        assert isinstance(case.load, PoissonLoad)
        # The name is the load in percent of the capacity, which five workers of 50 ms make 100 a second.
        assert case.load.rate == pytest.approx(float(name.rpartition("-")[2]))
    assert {case.service_time for case in cases.values()} == {0.05}


@needs_nginx
def test_fifo_has_no_goodput_above_its_capacity(tmp_path: Path) -> None:
    names = ("fifo-200", "lifo-200", "deadline-200")
    scenario = with_cases(find_scenario("overload"), names, seed=5, duration=1.0)
    run = run_of(with_loads(scenario, PoissonLoad(180.0), "-200"), tmp_path)
    goodput = {case.name: case.figures["goodput"] for case in run.cases}
    # No request was lost: each was answered, rejected or abandoned.
    for case in run.cases:
        assert case.client is not None
        assert goodput[case.name]["unknown"] == 0
    assert goodput["fifo-200"]["turned_away"] == 0
    assert goodput["lifo-200"]["of_capacity"] > 5 * goodput["fifo-200"]["of_capacity"]
    assert goodput["deadline-200"]["wasted"] < goodput["lifo-200"]["wasted"] < goodput["fifo-200"]["wasted"]


@pytest.mark.scenario
@needs_nginx
def test_the_order_changes_nothing_for_the_queue_after_a_burst_and_everything_for_clients(tmp_path: Path) -> None:
    scenario = with_cases(find_scenario("burst"), ("fifo", "lifo"), seed=6)
    run = run_of(with_loads(scenario, StepsLoad(rates=[16, 110, 16], at=[0.5, 1.4]), "fo"), tmp_path, scale=0.5)
    fifo, lifo = (median_of(run, case, "recovery.queue.waiting") for case in ("fifo", "lifo"))
    assert fifo == pytest.approx(lifo, abs=8)
    assert all(case.figures["recovery"]["goodput"]["recovered"] is True for case in run.cases)


@pytest.mark.scenario
@needs_nginx
def test_clients_who_ask_again_keep_it_down(tmp_path: Path) -> None:
    scenario = with_cases(find_scenario("retry-storm"), ("once", "backoff"), seed=8)
    load = StepsLoad(rates=[40, 185, 40], at=[0.4, 0.85])
    run = run_of(msgspec.structs.replace(with_loads(scenario, load, ""), duration=5.0), tmp_path, scale=0.6)
    assert median_of(run, "once", "recovery.settled.attempts") == 1.0
    assert median_of(run, "backoff", "recovery.settled.attempts") > 2.5


@pytest.mark.scenario
@needs_nginx
def test_slow_route_on_its_own_workers_delays_no_other_route(tmp_path: Path) -> None:
    scenario = find_scenario("head-of-line")
    run = run_of(msgspec.structs.replace(scenario, seed=3, duration=9.0, learned=""), tmp_path, scale=0.5)
    shared, own = (median_of(run, case, "routes.by./product.requests") for case in ("shared", "own-pool"))
    assert shared == own > 50
