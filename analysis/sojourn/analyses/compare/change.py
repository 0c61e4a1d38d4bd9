"""The change of a figure with its interval, and its main component, in a sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sojourn.model.formatting import milliseconds, percent
from sojourn.model.verdict import CAUSES
from sojourn.timeline.time_blocks import LEVEL

CAUSE_NAMES = {
    "queueing": "queueing",
    "service": "service time",
    "before": "time before the app",
    "body": "the body of the answer",
    "after": "time after the app",
    "retries": "earlier attempts",
    "unknown": "unaccounted time",
}


@dataclass(frozen=True)
class Change:
    """A figure on both sides, s; ``low`` and ``high`` are the 95 % interval of b - a."""

    a: float
    b: float
    low: float
    high: float

    @property
    def change(self) -> float:
        """B minus A."""
        return self.b - self.a

    @property
    def certain(self) -> bool:
        """Whether the interval leaves 0 out."""
        return self.low > 0 or self.high < 0

    def to_dict(self) -> dict[str, object]:
        """Return plain values."""
        return {
            "a": self.a,
            "b": self.b,
            "change": self.change,
            "low": self.low,
            "high": self.high,
            "certain": self.certain,
        }


def change_of(a: float, b: float, spread: npt.NDArray[np.float64]) -> Change:
    """Return the change from ``a`` to ``b`` with its bootstrap interval.

    Args:
        a: the figure of the first side, s.
        b: the figure of the second side, s.
        spread: b - a of the binned sums first, then of every resample; both have the same binning error.
    """
    low, high = np.quantile(spread[1:], [(1 - LEVEL) / 2, (1 + LEVEL) / 2]) - spread[0] + (b - a)
    return Change(a, b, float(low), float(high))


def causes_of(parts: Mapping[str, Change]) -> dict[str, float]:
    """Return cause (of ``CAUSES``) -> change of the sum of its components, s."""
    return {cause: math.fsum(parts[part].change for part in members) for cause, members in CAUSES.items()}


def cause_of(parts: Mapping[str, Change], whole: Change) -> str:
    """Return the cause that changed most in the direction of the whole."""
    by_cause = causes_of(parts)
    return max(by_cause, key=lambda cause: math.copysign(1.0, whole.change) * by_cause[cause])


def made_of(parts: Mapping[str, Change], whole: Change, cause: str) -> str:
    """Describe the part of a change that a cause explains: a share, or both parts if they have opposite signs."""
    part = causes_of(parts)[cause]
    if abs(part) <= abs(whole.change) * 1.02:
        return f"{percent(part / whole.change)} is {CAUSE_NAMES[cause]}"
    return f"{CAUSE_NAMES[cause]} is {signed(part)} ms, everything else {signed(whole.change - part)} ms"


def moved(name: str, figure: Change) -> str:
    """Describe the change of a figure with its interval; only a significant one rises or falls."""
    between = f"{signed(figure.low)} to {signed(figure.high)}"
    if not figure.certain:
        return f"{name}: {milliseconds(figure.a)} and {milliseconds(figure.b)} ms ({between})"
    way = "rose" if figure.change > 0 else "fell"
    return (
        f"{name} {way} by {milliseconds(abs(figure.change))} ms ({between}), from {milliseconds(figure.a)} to "
        f"{milliseconds(figure.b)} ms"
    )


def signed(seconds: float) -> str:
    """Format milliseconds with their sign."""
    text = milliseconds(seconds)
    return f"+{text}" if seconds > 0 and text != "0" else text
