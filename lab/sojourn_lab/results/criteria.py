"""Judge a run by the criteria that its scenario states before the run."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import msgspec
from sojourn.model.formatting import percent

from sojourn_lab.results.app_times import note_on
from sojourn_lab.results.metric_units import metric_text
from sojourn_lab.results.run_schema import CaseResult, ContrastResult, CriterionResult, PredictionResult
from sojourn_lab.scenario.schema import Criterion

Figures = Callable[[str], float | None]
"""A path -> the number at it, None where there is none."""


def number_at(path: str, result: Any) -> float | None:
    """Return the number (a truth value counts as 1 or 0) at a dotted path, None where there is none.

    A key that holds dots itself, or the number of an entry of a list, may be one of the steps.
    """
    value = value_at(path, result)
    return float(value) if isinstance(value, int | float) else None


def value_at(path: str, result: Any) -> Any:
    """Return the value at a dotted path, None where there is none."""
    if not path:
        return result
    key, _, rest = path.partition(".")
    if isinstance(result, list):
        return value_at(rest, result[int(key)]) if key.isdecimal() and int(key[:10]) < len(result) else None
    if not isinstance(result, dict):
        return None
    if key in result:
        return value_at(rest, result[key])
    # A route or a quantile may have a dot in its name: the longest matching key is used.
    longer = [name for name in result if isinstance(name, str) and (path == name or path.startswith(f"{name}."))]
    return value_at(path[len(name) + 1 :], result[name]) if (name := max(longer, key=len, default="")) else None


def by_base(cases: Sequence[CaseResult]) -> dict[str, list[Any]]:
    """Return the plain values of every round of each case, by the scenario's name for it."""
    rounds: dict[str, list[Any]] = {}
    for case in cases:
        rounds.setdefault(case.base or case.name, []).append(msgspec.to_builtins(case))
    return rounds


def median_at(path: str, rounds: Sequence[Any]) -> float | None:
    """Return the median of the numbers at a path over the rounds; None if any round has none."""
    values = [number_at(path, each) for each in rounds]
    numbers = [value for value in values if value is not None]
    return statistics.median(numbers) if numbers and len(numbers) == len(values) else None


def judged_criteria(
    criteria: list[Criterion],
    cases: Sequence[CaseResult],
    predictions: Sequence[PredictionResult] = (),
    contrasts: Sequence[ContrastResult] = (),
) -> list[CriterionResult]:
    """Return the result of every criterion in every case, prediction or contrast that its pattern matches.

    A criterion without a match has failed: nothing could show that it is met. Skipped cases, and contrasts with one of
    them, are not judged; `lessons_of` names them.
    """
    of_cases = by_base(cases)
    of_predictions = {each.change: [msgspec.to_builtins(each)] for each in predictions}
    of_contrasts = {each.name: [msgspec.to_builtins(each)] for each in contrasts}
    judged: list[CriterionResult] = []
    for criterion in criteria:
        if criterion.predictions is not None:
            results, pattern, what = of_predictions, criterion.predictions, "prediction"
        elif criterion.contrasts is not None:
            results, pattern, what = of_contrasts, criterion.contrasts, "contrast"
        else:
            results, pattern, what = of_cases, criterion.cases, "case"
        meant = [name for name in results if fnmatchcase(name, pattern)]
        judged += [_judged(criterion, name, results[name], of_cases) for name in meant if not skipped(results[name])]
        if not meant:
            bound = f"no {what} is called {pattern}"
            judged.append(CriterionResult(criterion.name, "", criterion.metric, bound, None, False))
    return judged


def skipped(rounds: Sequence[Any]) -> str:
    """Return why a case, or one of a contrast, was not measured in any round; empty when it was."""
    reasons = [value_at("figures.skipped", each) or value_at("skipped", each) or None for each in rounds]
    return str(reasons[0]) if reasons and all(isinstance(reason, str) for reason in reasons) else ""


def expected_voids(expected: Collection[str], cases: Sequence[CaseResult]) -> list[CriterionResult]:
    """Return, for every round of the cases in `expected`, whether it was void, as the scenario requires."""
    name = "the generator was the bottleneck, as the scenario expects"
    return [
        CriterionResult(name, case.name, "void", "void", float(len(case.void)), bool(case.void))
        for case in cases
        if case.base in expected
    ]


def _judged(
    criterion: Criterion, name: str, rounds: Sequence[Any], cases: Mapping[str, Sequence[Any]]
) -> CriterionResult:
    def figure(path: str) -> float | None:
        case, colon, rest = path.partition(":")
        return median_at(rest, cases.get(case, ())) if colon else median_at(path, rounds)

    value = figure(criterion.metric)
    bound, passed = _comparison(criterion, value, figure)
    source = value_at("app_times.source", rounds[0]) if rounds else None
    note = "" if source is None else note_on(criterion.metric, value, source)
    return CriterionResult(criterion.name, name, criterion.metric, bound, value, passed, note)


def _comparison(criterion: Criterion, value: float | None, figure: Figures) -> tuple[str, bool]:
    """Return the bound as text and whether the value meets it; a missing value meets none."""
    measured = math.nan if value is None else value

    def text_of(limit: float | None) -> str:
        return metric_text(criterion.metric, [limit], criterion.name)

    def limit_of(bound: float | str) -> float | None:
        number = figure(bound) if isinstance(bound, str) else bound
        return None if number is None else number * criterion.times

    def bound_text(kind: str, bound: float | str, limit: float | None) -> str:
        if not isinstance(bound, str):
            return f"{kind} {text_of(limit)}"
        times = "" if criterion.times == 1.0 else f"{criterion.times:g} times "
        return f"{kind} {times}{bound}, which " + ("has no value" if limit is None else f"is {text_of(limit)}")

    for kind, bound in (("below", criterion.below), ("above", criterion.above), ("exactly", criterion.equals)):
        if bound is None:
            continue
        limit = limit_of(bound)
        number = math.nan if limit is None else limit
        passed = {"below": measured < number, "above": measured > number, "exactly": measured == number}[kind]
        return bound_text(kind, bound, limit), passed
    within, of = criterion.within or 0.0, criterion.of if criterion.of is not None else math.nan
    limit = limit_of(of)
    if limit is None:
        return f"within {percent(within)} of {of}, which has no value", False
    return f"within {percent(within)} of {text_of(limit)}", abs(measured - limit) <= within * abs(limit)
