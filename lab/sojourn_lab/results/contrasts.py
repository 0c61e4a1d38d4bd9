"""One figure of two cases over several rounds: its ratio, with a confidence interval."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from sojourn_lab.results.criteria import by_base, median_at, number_at, skipped
from sojourn_lab.results.run_schema import CaseResult, ContrastResult
from sojourn_lab.scenario.schema import LEAST_ROUNDS, Contrast


def contrast_results(contrasts: Sequence[Contrast], cases: Sequence[CaseResult]) -> list[ContrastResult]:
    """Return every contrast, over all rounds of its two cases."""
    rounds = by_base(cases)
    results = []
    for each in contrasts:
        a_rounds, b_rounds = rounds.get(each.a, []), rounds.get(each.b, [])
        pairs = [
            (number_at(each.metric, a), number_at(each.metric, b)) for a, b in zip(a_rounds, b_rounds, strict=False)
        ]
        ratios = [a / b for a, b in pairs if a is not None and b is not None and a > 0.0 and b > 0.0]
        whole = len(ratios) == len(pairs) and bool(pairs)
        ratio, low, high = ratio_with_interval(ratios) if whole else (None, None, None)
        a, b = median_at(each.metric, a_rounds), median_at(each.metric, b_rounds)
        why = skipped(a_rounds) or skipped(b_rounds)
        results.append(ContrastResult(each.name, each.metric, a, b, ratio, low, high, len(pairs), why))
    return results


def ratio_with_interval(ratios: Sequence[float]) -> tuple[float, float | None, float | None]:
    """Return the median of ratios (at least one, all above 0), and the ends of the 95 % interval of their mean.

    With y = ln(ratio): exp of median(y), and of mean(y) ± t(0.975, n - 1) · s(y) / √n. The speed of a machine drifts
    over minutes; pairing successive measurements removes most of that from the ratio, and the median ignores a single
    disturbed round. The ends are None with fewer than three ratios.
    """
    logs = [math.log(ratio) for ratio in ratios]
    median, mean = math.exp(statistics.median(logs)), statistics.fmean(logs)
    if len(logs) < LEAST_ROUNDS:
        return median, None, None
    from sojourn.model.statistics import student_t  # noqa: PLC0415 - brings Polars

    half = student_t(0.975, len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    return median, math.exp(mean - half), math.exp(mean + half)


def interval_by_rounds(pairs: Sequence[tuple[float | None, float | None]]) -> tuple[float, float] | None:
    """Return the ends of the 95 % interval of after / before - 1 over pairs of rounds.

    None with fewer than three rounds, and where a figure is missing or not above 0.
    """
    ratios = [after / before for before, after in pairs if before and after and before > 0.0 and after > 0.0]
    if len(ratios) < max(len(pairs), LEAST_ROUNDS):
        return None
    _, low, high = ratio_with_interval(ratios)
    return None if low is None or high is None else (low - 1.0, high - 1.0)
