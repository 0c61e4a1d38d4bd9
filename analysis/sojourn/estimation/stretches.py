"""Join the inferences of successive stretches of a long log, each of which was inferred on its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sojourn.estimation.inferred import INFERRED, LOWER_BOUND, REFUSED, Inference, Window
from sojourn.model.formatting import counted

MOST_REFUSED = 0.1  # of the requests


@dataclass(frozen=True)
class Stretch:
    """The inference of one stretch of a log.

    Attributes:
        result: its inference; only the arrays of the one that stands for all are used.
        requests: that it was inferred for.
        mean, p99: of their waits, s; NaN where it is refused.
        begin, end: first and last arrival, s.
        load: mean number of requests in the system.
    """

    result: Inference
    requests: int
    mean: float
    p99: float
    begin: float
    end: float
    load: float

    @property
    def windows(self) -> tuple[Window, ...]:
        """Its parts with a number of workers each."""
        result = self.result
        return result.windows or (Window(self.begin, self.end, result.workers, result.lowest, result.highest),)


def joined(stretches: Sequence[Stretch], p99: float) -> Inference:
    """Return one inference for all stretches.

    It is refused if more than a tenth of the requests lie in refused stretches; otherwise those of these alone remain
    without a wait. Checks and arrays are those of the busiest stretch with the same verdict.

    Args:
        stretches: in the order of time, more than one.
        p99: of the waits of all that are not refused, s.
    """
    refused = [each for each in stretches if each.result.verdict == REFUSED]
    if sum(each.requests for each in refused) > MOST_REFUSED * sum(each.requests for each in stretches):
        result = max(refused, key=lambda each: each.load).result
        return replace(result, reason=f"{result.reason} That is so in {_share(refused, stretches)}.")
    usable = [each for each in stretches if each.result.verdict != REFUSED]
    bounds = [each for each in usable if each.result.verdict == LOWER_BOUND]
    result = max(bounds or usable, key=lambda each: each.load).result
    windows = _merged(usable)
    reason = result.reason
    if len(windows) > 1:
        numbers = ", ".join(str(window.workers) for window in windows)
        reason = f"The number of workers changed ({numbers}); each part fits a queue of its own."
    if bounds and len(bounds) < len(usable):
        reason += f" That is so in {_share(bounds, stretches)}."
    if refused:
        because = refused[0].result.reason
        reason += f" Nothing is inferred in {_share(refused, stretches)}: {because[0].lower()}{because[1:]}"
    tops = [window.highest for window in windows]
    return replace(
        result,
        verdict=LOWER_BOUND if bounds else INFERRED,
        reason=reason,
        # The number of workers matters where requests waited.
        workers=max(usable, key=lambda each: each.requests * each.mean).result.workers,
        lowest=min(window.lowest for window in windows),
        highest=None if None in tops else max(top for top in tops if top is not None),
        mean_range=_range(usable, lambda each: each.result.mean_range),
        p99_range=_tail_range(usable, p99),
        excess=_excess(usable),
        windows=tuple(windows) if len(windows) > 1 else (),
        contradictions=sum(each.result.contradictions for each in usable),
    )


def _share(some: Sequence[Stretch], stretches: Sequence[Stretch]) -> str:
    return f"{len(some):,} of {counted(len(stretches), 'part')} of the log"


def _merged(stretches: Sequence[Stretch]) -> list[Window]:
    """Return the windows, successive ones joined while a number of workers fits all of them."""
    merged: list[Window] = []
    most = 0.0  # s waited in the part that decides the number of the last one
    for each in stretches:
        for window in each.windows:
            waited = each.requests * each.mean * (window.end - window.begin)
            if not (merged and window.lowest <= _top(merged[-1]) and merged[-1].lowest <= _top(window)):
                merged.append(window)
                most = waited
                continue
            last = merged[-1]
            lowest, highest = max(last.lowest, window.lowest), min(_top(last), _top(window))
            number = window.workers if waited > most else last.workers
            merged[-1] = Window(
                last.begin, window.end, int(min(max(number, lowest), highest)), lowest,
                None if math.isinf(highest) else int(highest),
            )  # fmt: skip
            most = max(most, waited)
    return merged


def _top(window: Window) -> float:
    return math.inf if window.highest is None else window.highest


def _range(
    stretches: Sequence[Stretch], ends: Callable[[Stretch], tuple[float, float] | None]
) -> tuple[float, float] | None:
    """Return the mean of ranges, by the number of requests; None if one is unknown."""
    ranges = [ends(each) for each in stretches]
    weights = [each.requests for each in stretches]
    if any(pair is None for pair in ranges):
        return None
    low, high = np.average(np.array(ranges, np.float64), axis=0, weights=weights)
    return float(low), float(high)


def _tail_range(stretches: Sequence[Stretch], p99: float) -> tuple[float, float] | None:
    """Return the range of the p99 of all waits: that of each stretch, moved to where the p99 of all is."""

    def moved(each: Stretch) -> tuple[float, float] | None:
        ends = each.result.p99_range
        return ends and (p99 + ends[0] - each.p99, p99 + ends[1] - each.p99)

    return _range(stretches, moved)


def _excess(stretches: Sequence[Stretch]) -> tuple[float, float] | None:
    """Return the figure without a model and its standard error; None if that of a stretch is unknown."""
    excesses = [each.result.excess for each in stretches]
    shares = np.array([each.requests for each in stretches], np.float64)
    shares /= shares.sum()
    pairs = [pair for pair in excesses if pair is not None]
    if len(pairs) < len(excesses):
        return None
    means, errors = np.array(pairs).T
    return float((shares * means).sum()), float(np.sqrt(((shares * errors) ** 2).sum()))
