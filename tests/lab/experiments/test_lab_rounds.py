"""Rounds of the same cases: medians, paired ratios with their interval, and criteria that look at another case."""

from __future__ import annotations

import math
from fnmatch import fnmatchcase
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from sojourn_lab.experiments.runner import planned_cases, seeds_of, servers_of
from sojourn_lab.results.contrasts import contrast_results, ratio_with_interval
from sojourn_lab.results.criteria import judged_criteria, median_at, number_at, value_at
from sojourn_lab.results.findings import formed, paragraph
from sojourn_lab.results.run_schema import CaseResult, WindowTimes
from sojourn_lab.scenario.files import scenario_from_text, shipped_scenario_paths
from sojourn_lab.scenario.run_options import RunOptions, scenario_with_options
from sojourn_lab.scenario.schema import Contrast, Criterion


def case(base: str, turn: int, **figures: Any) -> CaseResult:
    return CaseResult(
        name=f"{base}.r{turn}", service_time=0.0, load=None, warmup=0.0, duration=1.0, window=WindowTimes("", ""),
        client=None, listen=[], base=base, round=turn, figures=figures,
    )  # fmt: skip


CASES = [case("a", 1, x=2.0), case("b", 1, x=1.0), case("a", 2, x=9.0), case("b", 2, x=3.0), case("a", 3, x=8.0)]


@pytest.mark.parametrize(
    ("path", "number"),
    [
        ("a.b", 1.0),
        ("a.c.1", 3.0),
        ("a.c.2", None),
        ("a.c.x", None),
        ("p99.9.max", 7.0),
        ("p99", None),
        ("a", None),
        ("a.b.c", None),
        ("yes", 1.0),
        ("text", None),
    ],
)
def test_path_through_tables_lists_and_names_with_dots(path: str, number: float | None) -> None:
    result = {"a": {"b": 1, "c": [2, 3]}, "p99.9": {"max": 7}, "yes": True, "text": "9"}
    assert number_at(path, result) == number
    assert value_at("text", result) == "9"


def test_of_several_rounds_the_median_counts_and_one_that_is_missing_is_not_passed_over() -> None:
    assert median_at("x", [{"x": 1}, {"x": 9}, {"x": 2}]) == 2.0
    assert median_at("x", [{"x": 1}, {}]) is None
    assert median_at("x", []) is None


@pytest.mark.parametrize(
    ("criterion", "passed"),
    [
        (Criterion("c", "figures.x", cases="a", above=7.5), True),
        (Criterion("c", "figures.x", cases="a", above=8.5), False),
        (Criterion("c", "figures.x", cases="a", above="b:figures.x"), True),
        (Criterion("c", "figures.x", cases="a", above="b:figures.x", times=4.5), False),
        (Criterion("c", "figures.x", cases="a", within=0.01, of="b:figures.x", times=4.0), True),
        (Criterion("c", "figures.x", cases="a", below="missing:figures.x"), False),
        (Criterion("c", "b:figures.x", cases="a", equals=2.0), True),
    ],
)
def test_a_criterion_may_look_at_another_case_and_multiply(criterion: Criterion, passed: bool) -> None:
    (judged,) = judged_criteria([criterion], CASES)
    assert (judged.case, judged.passed) == ("a", passed)
    assert judged.bound
    if criterion.below == "missing:figures.x":
        assert "has no value" in judged.bound


def test_the_interval_of_a_ratio_covers_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(5)
    truth, covered, runs = 1.3, 0, 2000
    for _ in range(runs):
        _, low, high = ratio_with_interval((truth * np.exp(rng.normal(0.0, 0.1, 5))).tolist())
        assert low is not None
        assert high is not None
        covered += low <= truth <= high
    # Five standard deviations of a share of 0.95 in 2000.
    assert covered / runs == pytest.approx(0.95, abs=5 * math.sqrt(0.95 * 0.05 / runs))


def test_a_ratio_of_two_rounds_has_no_interval_and_a_figure_that_is_missing_no_ratio() -> None:
    assert ratio_with_interval([2.0, 8.0]) == (pytest.approx(4.0), None, None)
    result = contrast_results([Contrast("c", "figures.x", "a", "b"), Contrast("d", "figures.y", "a", "b")], CASES[:4])
    assert (result[0].a, result[0].b, result[0].rounds) == (5.5, 2.0, 2)
    assert result[0].ratio == pytest.approx(math.sqrt(2.0 * 3.0))
    assert (result[1].ratio, result[1].a) == (None, None)
    (judged,) = judged_criteria([Criterion("e", "ratio", contrasts="c", above=2.0)], [], contrasts=result)
    assert judged.passed


def test_a_paragraph_is_filled_with_the_figures_of_the_run() -> None:
    contrasts = contrast_results(
        [Contrast("a over b", "figures.x", "a", "b"), Contrast("ab", "figures.x", "a", "b")], CASES[:4]
    )
    text = """A has {a:figures.x|count}, B {b:figures.x|s},
        {a:figures.none} and {ab:ratio|.2f}; braces {like this} stay."""
    reported = paragraph(text, CASES[:4], contrasts)
    assert reported == "A has 6, B 2 s, – and 2.45; braces {like this} stay."
    assert [formed(0.0123, form) for form in ("ms", "%", "count", ".1f")] == ["12.3 ms", "1.2 %", "0", "0.0"]


ROUNDS = """
name = "rounds"
title = "t"
question = "q"
shows = "s"
seed = 3
duration = 1.0
repeats = 2
[[cases]]
name = "a"
seed = 9
service_time = 0.1
load = {kind = "closed", concurrency = 1}
[[cases]]
name = "b"
service_time = 0.1
load = {kind = "closed", concurrency = 1}
actions = [{at = 0.1, do = "add_backend"}]
"""


def test_all_cases_are_run_round_by_round_with_random_numbers_of_their_own() -> None:
    scenario = scenario_from_text(ROUNDS, "r")
    planned = planned_cases(scenario)
    assert [each.name for each in planned] == ["a.r1", "b.r1", "a.r2", "b.r2"]
    assert [seeds_of(scenario, each) for each in planned] == [[3, 9], [3, 1], [3, 9, 2], [3, 1, 2]]
    once = msgspec.structs.replace(scenario, repeats=1)
    assert [each.name for each in planned_cases(once)] == ["a", "b"]
    assert seeds_of(once, planned_cases(once)[0]) == [3, 9]
    # A case that changes its topology does not change that of others.
    assert [len(list(group)) for _, group in groupby(planned, key=lambda each: servers_of(scenario, each))] == [1] * 4


COMPARED = (
    ROUNDS.replace("repeats = 2", "repeats = 1")
    + """
[[cases]]
name = "c"
service_time = 0.1
load = {kind = "closed", concurrency = 1}
"""
)
BESIDE = """
[[criteria]]
name = "less than the other"
cases = "b"
metric = "figures.x"
below = "a:figures.x"
"""
OWN = BESIDE.replace("a:figures.x", "b:figures.y")
CONTRAST = """
[[contrasts]]
name = "a over b"
metric = "figures.x"
a = "a"
b = "b"
"""
OVER = """
[[criteria]]
name = "larger"
contrasts = "a over *"
metric = "ratio"
above = 1.0
"""


@pytest.mark.parametrize(
    ("criteria", "rounds"),
    [("", [1, 1, 1]), (OWN, [1, 1, 1]), (CONTRAST, [1, 1, 1]), (BESIDE, [3, 3, 1]), (CONTRAST + OVER, [3, 3, 1])],
    ids=["none", "own figure", "contrast alone", "other case", "criterion of a contrast"],
)
def test_cases_that_a_criterion_compares_are_measured_three_times(criteria: str, rounds: list[int]) -> None:
    scenario = scenario_from_text(COMPARED + criteria, "r")
    assert [scenario.rounds_of(each) for each in scenario.cases] == rounds
    names = [each.name for each in planned_cases(scenario)]
    assert len(names) == len(set(names)) == sum(rounds)
    assert "c" in names
    more = msgspec.structs.replace(scenario, repeats=4)
    assert [more.rounds_of(each) for each in more.cases] == [4, 4, 4]


@pytest.mark.parametrize("quick", [False, True], ids=["as it is", "quick"])
@pytest.mark.parametrize("path", shipped_scenario_paths(), ids=lambda path: path.stem)
def test_no_criterion_of_a_shipped_scenario_compares_single_rounds(path: Path, quick: bool) -> None:
    scenario, _ = scenario_with_options(path.stem, RunOptions(quick=quick))
    names = {case.name for case in scenario.cases}
    single = {case.name for case in scenario.cases if scenario.rounds_of(case) < 3}
    contrasted = [(each, other) for each in scenario.criteria for other in scenario.contrasts]
    for criterion, contrast in contrasted:
        if criterion.contrasts is not None and fnmatchcase(contrast.name, criterion.contrasts):
            assert not {contrast.a, contrast.b} & single, (criterion.name, contrast.name)
    for criterion in scenario.criteria:
        if criterion.predictions is None and criterion.contrasts is None:
            others = criterion.other_cases() & names
            own = {name for name in names if fnmatchcase(name, criterion.cases)}
            if others and own != others:
                assert not (own | others) & single, criterion.name


def test_ratio_of_a_contrast_does_not_follow_one_disturbed_round() -> None:
    ratio, low, high = ratio_with_interval([2.0, 40.0, 2.1])
    assert ratio == pytest.approx(2.1)
    assert low is not None
    assert high is not None
    assert low < ratio < high
