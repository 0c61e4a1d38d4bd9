"""A change of a figure, with its interval, and what it is made of, in words."""

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
    "client": "the client's connection",
    "retries": "retries",
    "unknown": "time nobody accounted for",
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
        """B less A."""
        return self.b - self.a

    @property
    def certain(self) -> bool:
        """Whether the interval leaves 0 out."""
        return self.low > 0 or self.high < 0

    def to_dict(self) -> dict[str, object]:
        """Plain values."""
        return {
            "a": self.a,
            "b": self.b,
            "change": self.change,
            "low": self.low,
            "high": self.high,
            "certain": self.certain,
        }


def change_of(a: float, b: float, spread: npt.NDArray[np.float64]) -> Change:
    """``spread``: b - a of the sums as they are, first, and of every resample: bins blur either in the same way."""
    low, high = np.quantile(spread[1:], [(1 - LEVEL) / 2, (1 + LEVEL) / 2]) - spread[0] + (b - a)
    return Change(a, b, float(low), float(high))


def causes_of(parts: Mapping[str, Change]) -> dict[str, float]:
    """Cause (of ``CAUSES``) -> change of its components together, s."""
    return {cause: math.fsum(parts[part].change for part in members) for cause, members in CAUSES.items()}


def cause_of(parts: Mapping[str, Change], whole: Change) -> str:
    """The cause that moved most in the direction of the whole."""
    by_cause = causes_of(parts)
    return max(by_cause, key=lambda cause: math.copysign(1.0, whole.change) * by_cause[cause])


def made_of(parts: Mapping[str, Change], whole: Change, cause: str) -> str:
    """What a change is made of: a share, or, where parts went opposite ways, either of them."""
    part = causes_of(parts)[cause]
    if abs(part) <= abs(whole.change) * 1.02:
        return f"{percent(part / whole.change)} is {CAUSE_NAMES[cause]}"
    return f"{CAUSE_NAMES[cause]} is {signed(part)} ms, everything else {signed(whole.change - part)} ms"


def moved(name: str, figure: Change) -> str:
    """How a figure moved, with its interval; without a word for it where it could be chance."""
    between = f"{signed(figure.low)} to {signed(figure.high)}"
    if not figure.certain:
        return f"{name}: {milliseconds(figure.a)} and {milliseconds(figure.b)} ms ({between})"
    way = "rose" if figure.change > 0 else "fell"
    return (
        f"{name} {way} by {milliseconds(abs(figure.change))} ms ({between}), from {milliseconds(figure.a)} to "
        f"{milliseconds(figure.b)} ms"
    )


def signed(seconds: float) -> str:
    """Milliseconds with their sign."""
    text = milliseconds(seconds)
    return f"+{text}" if seconds > 0 and text != "0" else text
