"""Judgement of a run: every comparison, at its bound, and without a value."""

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
from syrupy.assertion import SnapshotAssertion


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
def test_value_is_compared_with_its_bound(limits: dict[str, Any], passed: bool) -> None:
    (judged,) = judged_criteria([Criterion("x", QUEUEING, **limits)], [result()])
    assert (judged.passed, judged.value, judged.case) == (passed, 0.3, "c8-s100")


@pytest.mark.parametrize("metric", ["split.nothing", "split.audit.note", "split.components", "client.void", ""])
@pytest.mark.parametrize("limits", [{"below": 1e9}, {"above": -1e9}, {"equals": 0.0}, {"within": 9.0, "of": 1.0}])
def test_missing_value_fails_every_criterion(metric: str, limits: dict[str, Any]) -> None:
    (judged,) = judged_criteria([Criterion("x", metric, **limits)], [result()])
    assert (judged.passed, judged.value) == (False, None)


def test_case_without_a_split_fails() -> None:
    broken = result()
    broken.split = None
    assert not judged_criteria([Criterion("x", QUEUEING, below=1.0)], [broken])[0].passed


def test_criterion_applies_to_matching_cases_and_fails_without_any() -> None:
    cases = [result("c1-s100"), result("c8-s100"), result("c8-s300")]
    judged = judged_criteria([Criterion("x", QUEUEING, cases="c8-*", below=1.0)], cases)
    assert [each.case for each in judged] == ["c8-s100", "c8-s300"]
    (unmatched,) = judged_criteria([Criterion("x", QUEUEING, cases="c9-*", below=1.0)], cases)
    assert not unmatched.passed
    assert "c9-*" in unmatched.bound


def test_truth_value_counts_as_a_number() -> None:
    assert number_at("a.b", {"a": {"b": True}}) == 1.0


def test_lessons_state_the_figures(snapshot: SnapshotAssertion) -> None:
    scenario = find_scenario("benchmark")
    last = result("c8-s100", users=8, queueing=0.302)
    last.reference = Reference("c8-s100", response_time=0.8)
    lessons = lessons_of(scenario, [result("c1-s100", users=1, queueing=0.002), last])
    assert "from 2.00 to 302 ms" in lessons[0]
    assert lessons == snapshot


def test_one_case_or_none_gives_no_lesson() -> None:
    scenario = find_scenario("benchmark")
    assert lessons_of(scenario, []) == []
    assert lessons_of(scenario, [result()]) == []
