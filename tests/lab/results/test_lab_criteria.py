"""Judging a run: every comparison, at its edge, and where there is nothing to compare."""

from __future__ import annotations

from typing import Any

import pytest
from lab_support import find_scenario
from sojourn_lab.load.plan import Latency, Quantiles, Summary, Window
from sojourn_lab.results.criteria import judged_criteria, number_at
from sojourn_lab.results.findings import lessons_of
from sojourn_lab.results.run_schema import CaseResult, WindowTimes
from sojourn_lab.scenario.laws import Law
from sojourn_lab.scenario.load import ClosedLoad
from sojourn_lab.scenario.schema import Criterion, Reference


def result(name: str = "c8-s100", users: int = 8, queueing: float = 0.3, service: float = 0.1) -> CaseResult:
    client = Summary(
        case=name,
        window=Window(0.0, 1.0),
        requests=1,
        offered=1,
        sent=1,
        dropped=0,
        answered=1,
        failed=0,
        errors={},
        statuses={},
        offered_rate=1.0,
        achieved_rate=1.0,
        latency=Latency(Quantiles(), Quantiles()),
        schedule_lag=Quantiles(),
        loop_lag=Quantiles(),
        cpu=0.0,
        void=[],
    )
    split: dict[str, Any] = {
        "components": {"queueing_delay": {"mean": queueing}, "service_time": {"mean": service}},
        "response_time": {"mean": queueing + service},
        "audit": {"stationary": True, "note": "text"},
    }
    return CaseResult(
        name=name,
        service_time=0.1,
        load=ClosedLoad(users),
        warmup=0.0,
        duration=1.0,
        window=WindowTimes("", ""),
        client=client,
        listen=[],
        law=Law(0.1, 0.4, 0.3, 20.0, ""),
        split=split,
    )


QUEUEING = "split.components.queueing_delay.mean"


@pytest.mark.parametrize(
    ("limits", "passed"),
    [
        ({"below": 0.31}, True),
        ({"below": 0.3}, False),
        ({"above": 0.29}, True),
        ({"above": 0.3}, False),
        ({"equals": 0.3}, True),
        ({"equals": 0.31}, False),
        ({"within": 0.1, "of": 0.33}, True),
        ({"within": 0.1, "of": 0.34}, False),
        ({"within": 0.1, "of": 0.27}, False),
        ({"within": 0.1, "of": "law.queueing_delay"}, True),
        ({"within": 0.1, "of": "law.response_time"}, False),
        ({"within": 0.1, "of": "law.nothing"}, False),
    ],
)
def test_a_value_is_held_against_its_bound(limits: dict[str, Any], passed: bool) -> None:
    (judged,) = judged_criteria([Criterion("x", QUEUEING, **limits)], [result()])
    assert (judged.passed, judged.value, judged.case) == (passed, 0.3, "c8-s100")


@pytest.mark.parametrize("metric", ["split.nothing", "split.audit.note", "split.components", "client.void", ""])
@pytest.mark.parametrize("limits", [{"below": 1e9}, {"above": -1e9}, {"equals": 0.0}, {"within": 9.0, "of": 1.0}])
def test_what_is_not_there_passes_nothing(metric: str, limits: dict[str, Any]) -> None:
    (judged,) = judged_criteria([Criterion("x", metric, **limits)], [result()])
    assert (judged.passed, judged.value) == (False, None)


def test_a_case_without_a_split_passes_nothing() -> None:
    broken = result()
    broken.split = None
    assert not judged_criteria([Criterion("x", QUEUEING, below=1.0)], [broken])[0].passed


def test_a_criterion_is_for_the_cases_it_names_and_fails_where_there_are_none() -> None:
    cases = [result("c1-s100"), result("c8-s100"), result("c8-s300")]
    judged = judged_criteria([Criterion("x", QUEUEING, cases="c8-*", below=1.0)], cases)
    assert [each.case for each in judged] == ["c8-s100", "c8-s300"]
    (none_waiting,) = judged_criteria([Criterion("x", QUEUEING, cases="c9-*", below=1.0)], cases)
    assert not none_waiting.passed
    assert "c9-*" in none_waiting.bound


def test_a_truth_value_counts_as_a_number() -> None:
    assert number_at("a.b", {"a": {"b": True}}) == 1.0


def test_the_lessons_are_the_figures_in_words() -> None:
    scenario = find_scenario("benchmark")
    last = result("c8-s100", users=8, queueing=0.302)
    last.reference = Reference("c8-s100", response_time=0.8)
    lessons = lessons_of(scenario, [result("c1-s100", users=1, queueing=0.002), last])
    assert "From 1 to 8 users" in lessons[0]
    assert "from 2.00 to 302 ms" in lessons[0]
    assert "the queue got longer" in lessons[0]
    assert "800 ms is 2.0 times the law's 400 ms and 2.0 times the 402 ms measured here" in lessons[1]
    assert "about twice" in lessons[2]
    assert "nothing here is tuned" in lessons[2]


def test_there_is_no_lesson_in_one_case_or_none() -> None:
    scenario = find_scenario("benchmark")
    assert lessons_of(scenario, []) == []
    assert lessons_of(scenario, [result()]) == []
