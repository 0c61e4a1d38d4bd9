"""One figure of two cases over several rounds: how much larger it is in one of them, and how sure that is."""

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
    found = []
    for each in contrasts:
        ours, theirs = rounds.get(each.a, []), rounds.get(each.b, [])
        pairs = [(number_at(each.metric, a), number_at(each.metric, b)) for a, b in zip(ours, theirs, strict=False)]
        ratios = [a / b for a, b in pairs if a is not None and b is not None and a > 0.0 and b > 0.0]
        whole = len(ratios) == len(pairs) and bool(pairs)
        ratio, low, high = ratio_with_interval(ratios) if whole else (None, None, None)
        a, b = median_at(each.metric, ours), median_at(each.metric, theirs)
        why = skipped(ours) or skipped(theirs)
        found.append(ContrastResult(each.name, each.metric, a, b, ratio, low, high, len(pairs), why))
    return found


def ratio_with_interval(ratios: Sequence[float]) -> tuple[float, float | None, float | None]:
    """Return the median of ratios (at least one, all above 0), and the ends of the 95 % interval of their mean.

    With y = ln(ratio): median(y), and mean(y) ± t(0.975, n - 1) · s(y) / √n, and back. Machines change from one minute
    to the next; pairing what followed one another takes most of that out of the ratio, and the median does not follow
    one round in which something else was going on. None for the ends with fewer than three.
    """
    logs = [math.log(ratio) for ratio in ratios]
    median, mean = math.exp(statistics.median(logs)), statistics.fmean(logs)
    if len(logs) < LEAST_ROUNDS:
        return median, None, None
    # Late, because it brings SciPy.
    from scipy.stats import t  # noqa: PLC0415

    half = float(t.ppf(0.975, len(logs) - 1)) * statistics.stdev(logs) / math.sqrt(len(logs))
    return median, math.exp(mean - half), math.exp(mean + half)
