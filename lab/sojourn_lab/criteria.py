"""Judging a run by what its scenario wrote down beforehand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from sojourn_lab.document import CaseResult, CriterionResult, PredictionResult
from sojourn_lab.scenario import Criterion


def number_at(path: str, result: Any) -> float | None:
    """Return the number (a truth value counts as 1 or 0) at a dotted path, None where there is none."""
    found = result
    for key in path.split("."):
        if not isinstance(found, dict) or key not in found:
            return None
        found = found[key]
    return float(found) if isinstance(found, int | float) else None


def judged_criteria(
    criteria: list[Criterion], cases: list[CaseResult], predictions: Sequence[PredictionResult] = ()
) -> list[CriterionResult]:
    """Return every criterion in every case, or prediction, it is meant for.

    One that none matches has failed: it was written down and nothing could show it.
    """
    of_cases = {case.name: msgspec.to_builtins(case) for case in cases}
    of_predictions = {each.change: msgspec.to_builtins(each) for each in predictions}
    judged: list[CriterionResult] = []
    for criterion in criteria:
        by_case = criterion.predictions is None
        results, pattern = (of_cases, criterion.cases) if by_case else (of_predictions, criterion.predictions or "")
        meant = [name for name in results if fnmatchcase(name, pattern)]
        judged += [_judged(criterion, name, results[name]) for name in meant]
        if not meant:
            bound = f"no {'case' if by_case else 'prediction'} is called {pattern}"
            judged.append(CriterionResult(criterion.name, "", criterion.metric, bound, None, False))
    return judged


def _judged(criterion: Criterion, name: str, figures: Any) -> CriterionResult:
    value = number_at(criterion.metric, figures)
    bound, passed = _comparison(criterion, value, figures)
    return CriterionResult(criterion.name, name, criterion.metric, bound, value, passed)


def _comparison(criterion: Criterion, value: float | None, figures: Any) -> tuple[str, bool]:
    """Return the bound in words and whether the value keeps it; a value that is no number keeps none."""
    known = math.nan if value is None else value
    if criterion.below is not None:
        return f"below {criterion.below:g}", known < criterion.below
    if criterion.above is not None:
        return f"above {criterion.above:g}", known > criterion.above
    if criterion.equals is not None:
        return f"exactly {criterion.equals:g}", known == criterion.equals
    within = criterion.within or 0.0
    wanted = number_at(criterion.of, figures) if isinstance(criterion.of, str) else criterion.of
    if wanted is None:
        return f"within {within:.0%} of {criterion.of}, which has no value", False
    return f"within {within:.0%} of {wanted:.4g}", abs(known - wanted) <= within * abs(wanted)
